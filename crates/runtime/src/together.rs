//! Apps with frame ports and apps with services in one process. In: their programs and the options of `wireloom run`. Out: the apps of each sort
//! have cores of their own, as if the others were not there.

use crate::control::Where;
use crate::error::Error;
use crate::packet;
use crate::server::{prepare, serve_apps, AppSpec, Ready, ServeOptions, Summary};

/// Serves apps of both sorts until it is told to stop; the packets may have ended before.
pub fn serve(frames: Vec<AppSpec>, services: Vec<AppSpec>, mut options: ServeOptions) -> Result<Summary, Error> {
    let (tell, told) = std::sync::mpsc::channel();
    let own = ServeOptions {
        cpus: options.cpus.clone(),
        drain_limit: options.drain_limit,
        stop: options.stop.clone(),
        // The services have the doors to the outside.
        admin: None,
        control: Where::Off,
        frames: std::mem::take(&mut options.frames),
        ready: Some(Box::new(move |r: &Ready| drop(tell.send(r.frames.clone())))),
        ..ServeOptions::default()
    };
    let stop = options.stop.clone();
    let run = move || {
        let ended = packet::serve(frames, own);
        if ended.is_err() {
            stop.drain();
        }
        ended
    };
    let packets = std::thread::Builder::new().name("packets".into()).spawn(run).map_err(|e| Error::Io("cannot start a thread".into(), e))?;
    // None: they failed, which the thread's end tells.
    let served = told.recv().ok().map(|frames| {
        if let Some(tell) = options.ready.take() {
            options.ready = Some(Box::new(move |r: &Ready| {
                let (engine, ports, control) = (r.engine.clone(), r.ports.clone(), r.control.clone());
                tell(&Ready { engine, cores: r.cores, admin: r.admin, control, ports, frames, stats: r.stats.clone(), apps: r.apps.clone() });
            }));
        }
        let stop = options.stop.clone();
        let served = prepare(services).and_then(|apps| serve_apps(apps, options));
        stop.drain();
        served
    });
    let packets = packets.join().unwrap_or_else(|_| Err(Error::Program("an app ended early".into())))?;
    Ok(served.transpose()?.map_or(packets, |s| sum(s, packets)))
}

fn sum(a: Summary, b: Summary) -> Summary {
    Summary {
        connections: a.connections + b.connections,
        requests: a.requests + b.requests,
        replies: a.replies + b.replies,
        faults: a.faults + b.faults,
        frames: a.frames + b.frames,
        frames_sent: a.frames_sent + b.frames_sent,
        frames_dropped: a.frames_dropped + b.frames_dropped,
        elapsed: a.elapsed.max(b.elapsed),
        clean: a.clean && b.clean,
    }
}
