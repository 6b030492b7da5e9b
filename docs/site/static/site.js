// Search reads a text of each page it finds, which a browser does not let a page from the disk do.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
