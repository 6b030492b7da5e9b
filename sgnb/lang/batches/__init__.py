"""A program run once for each row of a table: the rows, their runs side by side, and a file that
keeps what is done."""
