"""States as plain text, SVG pictures and exported traces."""
