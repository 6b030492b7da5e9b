"""Program graphs: traced once with placeholder arguments, printed, saved and replayed without the
program's code. Knows no engine."""
