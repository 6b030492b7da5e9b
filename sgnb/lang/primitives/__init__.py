"""The words of a program: primitives, and what is made of them and of states. Arguments are checked
at the line that wrote them."""
