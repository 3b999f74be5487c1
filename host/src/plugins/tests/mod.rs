//! Real libraries against the real loader, inside this process and in children.

mod links;
mod lives;
mod refusals;
mod support;
