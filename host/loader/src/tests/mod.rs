//! Tests of real libraries with the real loader, inside this process and in children.

mod confined;
mod constructors;
mod contained;
mod data;
mod inventory;
mod links;
mod lives;
mod refusals;
mod replaced;
mod support;
