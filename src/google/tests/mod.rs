mod calendar;
mod forms;
#[path = "../../../tests/google/mod.rs"]
mod stand_in;
