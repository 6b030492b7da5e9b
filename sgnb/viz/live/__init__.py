"""Views of a running engine: emitter thread, record feed, widget and terminal."""
