//! A butler's life after its boot, and its end.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::stages::{Booted, Workers};
use crate::handle::Butler;
use access::Edge;
use base::{crash, task};
use mcp::{Listener, Served, accept_loop};
use modules::Modules;

/// The butler's task: owns its modules and its server.
pub(super) struct RunningButler {
    butler: Butler,
    modules: Modules,
    listener: Listener,
    served: Served,
    draining: CancellationToken,
    stop: CancellationToken,
    workers: Workers,
}

/// Requests still under way get this long once the sessions are over.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

impl RunningButler {
    /// The life of a booted butler, until `stop`.
    pub fn new(booted: Booted, modules: Modules, stop: CancellationToken) -> Self {
        let Booted { butler, listener, workers } = booted;
        let services = &butler.core.services;
        let admin = &services.config.admin;
        let edge = Edge::new(services.book.clone(), &admin.allowed_hosts, &admin.allowed_origins, admin.max_body.0);
        let draining = CancellationToken::new();
        let served = Served::new(butler.tools.clone(), edge, services.clock.clone(), draining.clone());
        Self { butler, modules, listener, served, draining, stop, workers }
    }

    /// Serves until the stop, then takes everything down in reverse.
    pub async fn run(mut self) {
        let name = self.butler.name().clone();
        crash::panic_point(&format!("butler.{name}"));
        let server_stop = CancellationToken::new();
        let served = self.served.clone();
        let serving = accept_loop(self.listener, server_stop.clone(), move |request| served.clone().answer(request));
        let mut server = task::spawn(task::Kind::Actor, "mcp-server", serving);
        tokio::select! {
            () = self.stop.cancelled() => {}
            ended = &mut server => {
                // Only its stop ends the server; anything else is a fault that the supervisor must see.
                panic!("the MCP server of {name} ended by itself: {ended:?}");
            }
        }
        self.draining.cancel();
        let core = &self.butler.core;
        let Workers { routed, approvals, schedule_loop, buffer, pump, memory } = self.workers;
        routed.close();
        schedule_loop.close();
        core.services.inbox.butlers().withdraw(name.as_str());
        core.services.routes.withdraw(name.as_str()).await;
        // Begun last, ended first: nothing new comes in while what is under way is finished.
        self.modules.stop_tasks().await;
        let closing = async {
            if let Some(buffer) = buffer {
                buffer.stop(core.config.shutdown.timeout.0).await;
            }
        };
        tokio::join!(closing, core.spawner.drain(core.config.shutdown.timeout.0));
        tokio::join!(routed.ended(LAST_REQUESTS), schedule_loop.ended(LAST_REQUESTS));
        approvals.close();
        approvals.ended(LAST_REQUESTS).await;
        if let Some(pump) = pump {
            // After the sessions, so that what they said last is tried.
            pump.close();
            pump.ended(core.config.shutdown.timeout.0).await;
        }
        if let Some(intake) = memory.intake {
            intake.stop(LAST_REQUESTS).await;
        }
        server_stop.cancel();
        if tokio::time::timeout(LAST_REQUESTS, &mut server).await.is_err() {
            server.abort();
        }
        self.butler.tools.flush_audit().await;
        self.modules.stop().await;
        core.services.db.release(&name).await;
        tracing::info!(butler = %name, "butler stopped");
    }
}
