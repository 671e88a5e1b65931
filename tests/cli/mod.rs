//! The commands, through the program itself.

#[macro_use]
mod shop;

mod changing;
mod demo;
mod importing;
mod listing;
mod moving;
mod policies;
mod readme;
mod scanning;
mod serving;
mod usage;
