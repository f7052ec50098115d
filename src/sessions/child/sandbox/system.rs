//! Which parts of the system programs need. Everything here is the same for every user of the machine and holds no
//! secret; homes, `/etc` as a whole, `/proc`, `/sys`, `/run`, `/tmp`, `/var` and `/opt` are not here.

/// To read: libraries, and what is the same everywhere.
pub const LIBRARIES: &[&str] = &[
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    // Where NixOS and Guix have everything.
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    // Without it some builds of OpenSSL don't start.
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
];

/// To read and write, but not to execute.
pub const DEVICES: &[&str] = &["/dev/null"];

/// To read, for a program that finds hosts by their names and judges certificates.
pub const NETWORK: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];

/// To read and execute, for a program that runs others (a shell).
pub const PROGRAMS: &[&str] = &[
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/usr/libexec",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/gnu/store",
    "/run/current-system/sw/bin",
];

/// To read, for such programs. What `/proc` tells of other processes that is secret (environment, memory, descriptors)
/// Landlock refuses to every process outside of this session.
pub const SETTINGS: &[&str] = &[
    "/usr/share",
    "/usr/local/share",
    "/usr/include",
    "/etc/alternatives",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/inputrc",
    "/etc/terminfo",
    "/etc/gitconfig",
    "/etc/os-release",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/python3",
    "/etc/perl",
    "/proc",
    "/sys/devices/system/cpu",
    "/dev/full",
    "/dev/fd",
];
