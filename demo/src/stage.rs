//! The output: a live picture in a terminal, a line a second elsewhere.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};
use ratatui::DefaultTerminal;
use std::io::IsTerminal;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Calm,
    Lost,
    Back,
}

/// One moment of the play.
pub struct Frame {
    pub now: Duration,
    pub end: Duration,
    pub act: Act,
    pub sides: Vec<SideFrame>,
}

pub struct SideFrame {
    pub proxy: String,
    pub port: u16,
    pub backends: Vec<(String, u16, bool)>,
    pub status: Option<serde_json::Value>,
    /// Answers that are no errors.
    pub per_second: f64,
    pub errors_per_second: f64,
    pub wrong: u64,
    /// µs
    pub p50: u64,
    pub p99: u64,
    pub cpu_us: f64,
    pub memory_kib: u64,
}

pub struct Stage {
    terminal: Option<DefaultTerminal>,
    history: [Vec<u64>; 2],
    lines: u32,
}

impl Stage {
    pub fn new() -> Stage {
        let terminal = if std::io::stdout().is_terminal() { Some(ratatui::init()) } else { None };
        Stage { terminal, history: Default::default(), lines: 0 }
    }

    pub fn close(&mut self) {
        if self.terminal.take().is_some() {
            ratatui::restore();
        }
    }

    /// Whether someone asked to stop, by key or by signal.
    pub fn quit(&self) -> bool {
        let mut asked = crate::signals::asked();
        while self.terminal.is_some() && event::poll(Duration::ZERO).unwrap_or(false) {
            asked |= matches!(event::read(), Ok(Event::Key(k)) if ends(k));
        }
        asked
    }

    pub fn draw(&mut self, frame: &Frame) {
        for (history, side) in self.history.iter_mut().zip(&frame.sides) {
            history.push(side.per_second as u64);
        }
        match &mut self.terminal {
            Some(terminal) => {
                let history = &self.history;
                terminal.draw(|f| picture(f, frame, history)).ok();
            }
            None => self.line(frame),
        }
    }

    fn line(&mut self, frame: &Frame) {
        self.lines += 1;
        if self.lines % 2 == 1 {
            return;
        }
        let act = act_text(frame.act);
        print!("{:>5.1} s  {act:<30}", frame.now.as_secs_f64());
        for s in &frame.sides {
            print!(
                "  {}: {:>6.0} served/s p99 {:>5} µs {:>5.0} errors/s",
                s.proxy, s.per_second, s.p99, s.errors_per_second
            );
        }
        println!();
    }
}

fn ends(key: KeyEvent) -> bool {
    let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    ctrl_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn act_text(act: Act) -> &'static str {
    match act {
        Act::Calm => "all backends up",
        Act::Lost => "backend 2 of each proxy killed",
        Act::Back => "backends started again",
    }
}

fn picture(f: &mut ratatui::Frame, frame: &Frame, history: &[Vec<u64>; 2]) {
    let rows =
        Layout::vertical([Constraint::Length(3), Constraint::Fill(1), Constraint::Fill(1), Constraint::Length(1)])
            .split(f.area());
    let colour = if frame.act == Act::Lost { Color::Red } else { Color::Green };
    let share = (frame.now.as_secs_f64() / frame.end.as_secs_f64()).clamp(0.0, 1.0);
    f.render_widget(
        Gauge::default()
            .block(Block::bordered().title(" Wireloom demo "))
            .gauge_style(colour)
            .ratio(share)
            .label(act_text(frame.act)),
        rows[0],
    );
    for (i, side) in frame.sides.iter().enumerate().take(2) {
        side_picture(f, rows[1 + i], side, &history[i]);
    }
    f.render_widget(Paragraph::new(" q ends the demo").style(Style::new().fg(Color::DarkGray)), rows[3]);
}

/// Looks at the counts in a play of 17 s.
const SAMPLES: usize = 34;
/// Columns of the graph, and from which width on the figures stand beside it rather than below.
const GRAPH: u16 = 72;
const WIDE: u16 = GRAPH + 40;

fn side_picture(f: &mut ratatui::Frame, area: Rect, side: &SideFrame, history: &[u64]) {
    let block = Block::bordered().title(format!(" {} on port {} ", side.proxy, side.port));
    let inner = block.inner(area);
    f.render_widget(block, area);
    let graph_height = side.backends.len() as u16;
    let (graph_at, figures_at, history_at) = if inner.width >= WIDE {
        let columns = Layout::horizontal([Constraint::Length(GRAPH), Constraint::Fill(1)]).split(inner);
        let rows = Layout::vertical([Constraint::Length(4), Constraint::Fill(1)]).split(columns[1]);
        (columns[0], rows[0], rows[1])
    } else {
        let rows = Layout::vertical([Constraint::Length(graph_height), Constraint::Length(2), Constraint::Fill(1)])
            .split(inner);
        (rows[0], rows[1], rows[2])
    };
    f.render_widget(Paragraph::new(graph(side)), graph_at);
    f.render_widget(Paragraph::new(if inner.width >= WIDE { figures(side) } else { short_figures(side) }), figures_at);
    let rows =
        Layout::vertical([Constraint::Length(u16::from(history_at.height > 2)), Constraint::Fill(1)]).split(history_at);
    let peak = history.iter().max().copied().unwrap_or(0);
    f.render_widget(
        Paragraph::new(format!("served/s over time, peak {peak}")).style(Style::new().fg(Color::DarkGray)),
        rows[0],
    );
    // The whole play spans the width.
    let wide = (history_at.width as usize / SAMPLES).max(1);
    let stretched: Vec<u64> = history.iter().flat_map(|n| std::iter::repeat_n(*n, wide)).collect();
    let shown = &stretched[stretched.len().saturating_sub(history_at.width as usize)..];
    f.render_widget(Sparkline::default().data(shown).style(Style::new().fg(Color::Cyan)), rows[1]);
}

/// The app's graph: clients, the proxy, its backends, and what each carries.
fn graph(side: &SideFrame) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let middle = side.backends.len() / 2;
    side.backends
        .iter()
        .enumerate()
        .map(|(i, (name, port, alive))| {
            let (stem, left) = match i {
                _ if i == middle => ("┼", format!("clients ──▶ {:<16}─", side.proxy)),
                0 => ("┌", " ".repeat(29)),
                _ if i + 1 == side.backends.len() => ("└", " ".repeat(29)),
                _ => ("├", " ".repeat(29)),
            };
            let state = match alive {
                true => Span::styled("up    ", Color::Green),
                false => Span::styled("killed", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)),
            };
            Line::from(vec![
                Span::styled(left, bold),
                Span::raw(format!("{stem}─▶ {name:<5} :{port:<5} ")),
                state,
                Span::raw(traffic(side, i)),
            ])
        })
        .collect()
}

/// Requests a backend has had, from the proxy's status page.
fn traffic(side: &SideFrame, backend: usize) -> String {
    let port = side.backends[backend].1;
    let Some(status) = &side.status else { return String::new() };
    find_backend(status, &format!("127.0.0.1:{port}")).map_or(String::new(), |n| format!(" {n:>8} requests"))
}

/// Sums `requests` of every object in the page whose `address` is this one.
fn find_backend(value: &serde_json::Value, address: &str) -> Option<u64> {
    match value {
        serde_json::Value::Object(o) if o.get("address").and_then(|a| a.as_str()) == Some(address) => {
            o.get("requests")?.as_u64()
        }
        serde_json::Value::Object(o) => o.values().filter_map(|v| find_backend(v, address)).reduce(|a, b| a + b),
        serde_json::Value::Array(a) => a.iter().filter_map(|v| find_backend(v, address)).reduce(|a, b| a + b),
        _ => None,
    }
}

fn errors(side: &SideFrame) -> Style {
    Style::new().fg(if side.errors_per_second > 0.0 { Color::Yellow } else { Color::Gray })
}

fn figures(side: &SideFrame) -> Vec<Line<'static>> {
    vec![
        Line::from(format!("{:>8.0} served/s", side.per_second)),
        Line::from(format!("{:>8} µs p50   {:>6} µs p99", side.p50, side.p99)),
        Line::from(format!("{:>8.1} µs CPU per answer   {:.1} MiB", side.cpu_us, side.memory_kib as f64 / 1024.0)),
        Line::styled(format!("{:>8.0} errors/s   {} wrong", side.errors_per_second, side.wrong), errors(side)),
    ]
}

/// The same in two lines, for narrow terminals.
fn short_figures(side: &SideFrame) -> Vec<Line<'static>> {
    vec![
        Line::from(format!(
            "{:>8.0} served/s   p50 {:>5} µs   p99 {:>5} µs   {:>5.1} µs CPU/answer",
            side.per_second, side.p50, side.p99, side.cpu_us
        )),
        Line::styled(
            format!(
                "{:>8.0} errors/s    {} wrong        {:.1} MiB",
                side.errors_per_second,
                side.wrong,
                side.memory_kib as f64 / 1024.0
            ),
            errors(side),
        ),
    ]
}
