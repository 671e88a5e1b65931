//! What a host tells the service manager.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::host::Host;
use super::shop::Shop;

/// A service manager that listens.
struct Manager(UnixDatagram);

impl Manager {
    /// The next message that holds this line.
    fn hears(&self, line: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let length = match self.0.recv(&mut buffer) {
                // A child of another test has ended.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                received => received.unwrap_or_else(|error| panic!("{error} while waiting for {line}")),
            };
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.lines().any(|heard| heard == line) {
                return message;
            }
        }
    }
}

#[test]
fn the_service_manager_hears_of_readiness_life_reloads_and_the_end() {
    let shop = Shop::unmigrated();
    let socket = shop.path().join("notify.sock");
    let manager = Manager(UnixDatagram::bind(&socket).unwrap());
    manager.0.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let program = shop.program(&["serve", "--generation", "g"]);
    let program = program.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
    let mut host = Host::start_program(program);
    manager.hears("READY=1");
    manager.hears("WATCHDOG=1");
    manager.hears("WATCHDOG=1");
    host.signal("HUP");
    let reloading = manager.hears("RELOADING=1");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    manager.hears("READY=1");
    assert_eq!(host.stop().code(), Some(0));
    manager.hears("STOPPING=1");
}

#[test]
fn a_service_manager_that_does_not_listen_holds_nothing_up() {
    let shop = Shop::unmigrated();
    let socket = shop.path().join("notify.sock");
    let _deaf = UnixDatagram::bind(&socket).unwrap();
    let program = shop.program(&["serve", "--generation", "g"]);
    let program = program.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "2000");
    let mut host = Host::start_program(program);
    for _ in 0..200 {
        host.signal("HUP");
        host.told("told to reload by SIGHUP");
    }
    assert_eq!(host.stop().code(), Some(0));
}
