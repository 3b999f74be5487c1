//! Commands about where the host sends things.
