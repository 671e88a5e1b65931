//! A TCP proxy before a PostgreSQL server, which does to connections what networks do to them.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of connections; each is known by its number, from 1.
#[derive(Debug, Clone, Copy, Default)]
struct Network {
    /// Nothing passes for now.
    stalls: bool,
    /// New connections are reset.
    refuses: bool,
    /// Connections up to this one are reset.
    cut: u64,
    /// Of connections up to this one nothing passes ever again, and neither end is told.
    forgotten: u64,
    /// Connections up to this one are closed by the server's end, and still open at the client's.
    half_closed: u64,
    /// Connections that there have been.
    connections: u64,
}

/// A proxy that stands until it is dropped.
pub struct Proxy {
    network: watch::Sender<Network>,
    address: SocketAddr,
    server: String,
}

impl Proxy {
    /// A proxy before the server of a `postgres://` URL.
    pub async fn before(url: &str) -> Self {
        let server = host_of(url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (network, seen) = watch::channel(Network::default());
        tokio::spawn(accept(listener, server.clone(), network.clone(), seen));
        Self { network, address, server }
    }

    /// The URL through the proxy.
    pub fn url(&self, url: &str) -> String {
        url.replace(&self.server, &self.address.to_string())
    }

    /// Resets every connection. New ones pass.
    pub fn cuts(&self) {
        self.network.send_modify(|network| network.cut = network.connections);
    }

    /// Resets every connection, and each new one until it mends.
    pub fn refuses(&self) {
        self.network.send_modify(|network| (network.refuses, network.cut) = (true, network.connections));
    }

    /// Drops every packet of the connections that there are, without telling anybody. New ones pass.
    pub fn forgets(&self) {
        self.network.send_modify(|network| network.forgotten = network.connections);
    }

    /// Lets nothing pass until it mends; nothing is lost.
    pub fn stalls(&self) {
        self.network.send_modify(|network| network.stalls = true);
    }

    /// Ends what the server sends on every connection; what the client sends still passes.
    pub fn half_closes(&self) {
        self.network.send_modify(|network| network.half_closed = network.connections);
    }

    /// Everything that is still connected passes, and so do new connections.
    pub fn mends(&self) {
        self.network.send_modify(|network| (network.stalls, network.refuses) = (false, false));
    }
}

/// `host:port` of a URL.
fn host_of(url: &str) -> &str {
    url.rsplit_once('@').unwrap().1.split('/').next().unwrap()
}

async fn accept(
    listener: TcpListener,
    server: String,
    network: watch::Sender<Network>,
    seen: watch::Receiver<Network>,
) {
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        if seen.borrow().refuses {
            client.set_zero_linger().unwrap();
            continue;
        }
        let mut number = 0;
        network.send_modify(|network| {
            network.connections += 1;
            number = network.connections;
        });
        let (server, seen) = (server.clone(), seen.clone());
        tokio::spawn(async move {
            if let Ok(server) = TcpStream::connect(server).await {
                connection(number, client, server, seen).await;
            }
        });
    }
}

/// Passes on what both ends send until one has closed, or the network cuts them off.
async fn connection(number: u64, client: TcpStream, server: TcpStream, mut seen: watch::Receiver<Network>) {
    client.set_zero_linger().unwrap();
    server.set_zero_linger().unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pass(number, from_client, to_server, seen.clone());
    let mut half = seen.clone();
    let down = pass(number, from_server, to_client, seen.clone());
    let down = async {
        tokio::select! {
            to_client = down => drop(to_client),
            _ = half.wait_for(|network| number <= network.half_closed) => {}
        }
        // The other direction goes on until the client has closed as well.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = up => {}
        () = down => {}
        _ = seen.wait_for(|network| number <= network.cut) => {}
    }
}

async fn pass(
    number: u64,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut seen: watch::Receiver<Network>,
) -> OwnedWriteHalf {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        let passes = seen.wait_for(|network| !network.stalls && number > network.forgotten).await.is_ok();
        if read == 0 || !passes || to.write_all(&buffer[..read]).await.is_err() {
            // Ends the direction for the other end as well.
            let _ = to.shutdown().await;
            return to;
        }
    }
}
