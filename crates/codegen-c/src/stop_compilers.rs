//! Ends compilers that run beside a service, when the service ends.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A handle on the compilers of one or several calls of [`crate::compile`]; copies are of the same.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Groups of processes, by their first one, which was not waited for yet: so no number can have
    /// come to mean another one.
    running: Vec<i32>,
}

impl Stop {
    /// Running compilers are ended, and none is started from now on.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        for group in &state.running {
            // SAFETY: a plain system call. At SIGTERM a compiler removes the file that it has begun
            // to write.
            unsafe { libc::kill(-group, libc::SIGTERM) };
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command to its end, or until it is stopped. A compiler is several processes.
    pub(crate) fn output(&self, command: &mut Command) -> io::Result<Output> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = {
            let mut state = self.state();
            if state.stopped {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let child = command.spawn()?;
            state.running.push(child.id() as i32);
            child
        };
        let said = said(&mut child);
        self.state().running.retain(|group| *group != child.id() as i32);
        let status = child.wait()?;
        said.map(|(stdout, stderr)| Output { status, stdout, stderr })
    }
}

/// A process's output until all its writers have ended: standard output and standard error.
fn said(child: &mut Child) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|s| {
        let errors = s.spawn(move || all(err));
        Ok((all(out)?, errors.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?))
    })
}

fn all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_runs_is_ended_and_nothing_is_begun_afterwards() {
        let stop = Stop::default();
        let begin = Instant::now();
        let sleeper = std::thread::spawn({
            let stop = stop.clone();
            // A child of a child holds the pipes.
            move || stop.output(Command::new("sh").args(["-c", "sleep 300; true"]))
        });
        while stop.0.lock().unwrap().running.is_empty() {
            std::thread::sleep(Duration::from_millis(1))
        }
        stop.stop();
        assert!(!sleeper.join().unwrap().unwrap().status.success());
        assert!(stop.output(&mut Command::new("true")).is_err() && begin.elapsed() < Duration::from_secs(200));
    }
}
