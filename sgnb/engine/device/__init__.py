"""What the device does: copies, compiling, memory given back, and what its errors mean."""
