//! The one binary; everything is in the library.

fn main() {
    std::process::exit(cli::main());
}
