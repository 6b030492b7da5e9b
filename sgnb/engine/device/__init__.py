"""Device services: copies, compilation, memory release and error diagnosis."""
