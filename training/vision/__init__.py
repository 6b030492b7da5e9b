"""Training of the bundled model that sees, `sgnb/models/tiny-vision`: drawings, questions, network."""
