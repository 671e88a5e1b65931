//! Databases for single tests.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::backend::open_store;
use super::psql::psql;
use super::server::Server;

const TEMPLATE: &str = "migrated_template";

/// A fresh PostgreSQL database without any table; its URL.
pub fn empty_database() -> String {
    create("template1")
}

/// A fresh PostgreSQL database with the schema; its URL. It is a copy: migrating takes longer than copying.
pub fn migrated_database() -> String {
    static TEMPLATE_MADE: OnceLock<()> = OnceLock::new();
    TEMPLATE_MADE.get_or_init(|| {
        let server = Server::shared();
        psql(&server.url("postgres"), &format!("create database {TEMPLATE}"));
        let url = server.url(TEMPLATE);
        // On a thread of its own, since the test that comes first may stand in a runtime already.
        std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                open_store(&url).await.migrate(false).await.expect("an empty database takes the schema");
            });
        })
        .join()
        .expect("the schema stands");
        // A copy needs a template that nobody is connected to.
        psql(
            &server.url("postgres"),
            &format!(
                "update pg_database set datallowconn = false where datname = '{TEMPLATE}';
                 select pg_terminate_backend(pid) from pg_stat_activity where datname = '{TEMPLATE}';"
            ),
        );
    });
    create(TEMPLATE)
}

fn create(template: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let server = Server::shared();
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    psql(&server.url("postgres"), &format!("create database {name} template {template}"));
    server.url(&name)
}
