"""The views in JupyterLab, in a browser. A package, so that its fixtures end with its last test."""
