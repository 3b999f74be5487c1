//! Real libraries against the real loader, inside this process and in children.

mod confined;
mod data;
mod links;
mod lives;
mod refusals;
mod replaced;
mod support;
