mod answers;
mod faults;
mod habits;
mod memory;
mod radicale;
mod random;
mod simulated;
mod two_sides;
