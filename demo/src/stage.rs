//! What the audience sees: a live picture in a terminal, a line a second elsewhere.

use ratatui::crossterm::event::{self, Event, KeyCode};
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
    pub per_second: f64,
    pub errors: u64,
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

    /// Whether someone asked to stop.
    pub fn quit(&self) -> bool {
        if self.terminal.is_none() || !event::poll(Duration::ZERO).unwrap_or(false) {
            return false;
        }
        matches!(event::read(), Ok(Event::Key(k)) if matches!(k.code, KeyCode::Char('q' | 'c') | KeyCode::Esc))
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
        print!("{:>5.1} s  {act:<38}", frame.now.as_secs_f64());
        for s in &frame.sides {
            print!("  {}: {:>6.0}/s p99 {:>5} µs {:>4} errors", s.proxy, s.per_second, s.p99, s.errors);
        }
        println!();
    }
}

fn act_text(act: Act) -> &'static str {
    match act {
        Act::Calm => "all backends up",
        Act::Lost => "backend 2 of each proxy killed",
        Act::Back => "backends started again",
    }
}

fn picture(f: &mut ratatui::Frame, frame: &Frame, history: &[Vec<u64>; 2]) {
    let rows = Layout::vertical([Constraint::Length(3), Constraint::Fill(1), Constraint::Fill(1), Constraint::Length(1)]).split(f.area());
    let colour = if frame.act == Act::Lost { Color::Red } else { Color::Green };
    let share = (frame.now.as_secs_f64() / frame.end.as_secs_f64()).clamp(0.0, 1.0);
    f.render_widget(
        Gauge::default().block(Block::bordered().title(" Wireloom demo ")).gauge_style(colour).ratio(share).label(act_text(frame.act)),
        rows[0],
    );
    for (i, side) in frame.sides.iter().enumerate().take(2) {
        side_picture(f, rows[1 + i], side, &history[i]);
    }
    f.render_widget(Paragraph::new(" q ends the demo").style(Style::new().fg(Color::DarkGray)), rows[3]);
}

fn side_picture(f: &mut ratatui::Frame, area: Rect, side: &SideFrame, history: &[u64]) {
    let block = Block::bordered().title(format!(" {} on port {} ", side.proxy, side.port));
    let inner = block.inner(area);
    f.render_widget(block, area);
    let columns = Layout::horizontal([Constraint::Length(58), Constraint::Fill(1)]).split(inner);
    f.render_widget(Paragraph::new(graph(side)), columns[0]);
    let right = Layout::vertical([Constraint::Length(4), Constraint::Fill(1)]).split(columns[1]);
    f.render_widget(Paragraph::new(figures(side)), right[0]);
    let width = right[1].width as usize;
    let shown = &history[history.len().saturating_sub(width)..];
    f.render_widget(Sparkline::default().data(shown).style(Style::new().fg(Color::Cyan)), right[1]);
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
            let state = if *alive { Span::styled("up", Color::Green) } else { Span::styled("killed", Color::Red) };
            Line::from(vec![Span::styled(left, bold), Span::raw(format!("{stem}─▶ {name} :{port} ")), state, Span::raw(traffic(side, i))])
        })
        .collect()
}

/// Requests a backend has had, from the proxy's status page.
fn traffic(side: &SideFrame, backend: usize) -> String {
    let port = side.backends[backend].1;
    let Some(status) = &side.status else { return String::new() };
    find_backend(status, &format!("127.0.0.1:{port}")).map_or(String::new(), |n| format!("  {n} requests"))
}

/// Sums `requests` of every object in the page whose `address` is this one.
fn find_backend(value: &serde_json::Value, address: &str) -> Option<u64> {
    match value {
        serde_json::Value::Object(o) if o.get("address").and_then(|a| a.as_str()) == Some(address) => o.get("requests")?.as_u64(),
        serde_json::Value::Object(o) => o.values().filter_map(|v| find_backend(v, address)).reduce(|a, b| a + b),
        serde_json::Value::Array(a) => a.iter().filter_map(|v| find_backend(v, address)).reduce(|a, b| a + b),
        _ => None,
    }
}

fn figures(side: &SideFrame) -> Vec<Line<'static>> {
    let errors = Style::new().fg(if side.errors > 0 { Color::Yellow } else { Color::Gray });
    vec![
        Line::from(format!("{:>8.0} answers/s", side.per_second)),
        Line::from(format!("{:>8} µs p50   {:>6} µs p99", side.p50, side.p99)),
        Line::from(format!("{:>8.1} µs CPU per answer   {:.1} MiB", side.cpu_us, side.memory_kib as f64 / 1024.0)),
        Line::styled(format!("{:>8} errors   {} wrong", side.errors, side.wrong), errors),
    ]
}
