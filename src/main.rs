//! The `syncprof` program: a call and an exit code.

fn main() -> std::process::ExitCode {
    syncprof::cli::main()
}
