//! Access granted by the operator, and the requests of strangers.
