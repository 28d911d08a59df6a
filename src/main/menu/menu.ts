import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { AgentView } from '../agent-view.ts'
import { clusterLine, figuresLine, stateLine } from '../state-line.ts'
import { contextEntry, hostAddressEntry } from './choices.ts'
import { loginItemEntries, loginOfferEntries, takeOverEntries } from './app-entries.ts'
import { line, lines, separated, submenu, text, type MenuEntry } from './entries.ts'
import { modelEntries } from './model-entries.ts'
import { commandLinkEntries, moveEntries, updateEntries } from './update-entries.ts'

/** More would push what can be chosen off the screen; the window has them all. */
const maxNotices = 4

/** The menu of the icon: enough to run the node where no window can be drawn. */
export function menuOf(view: AgentView): MenuEntry[] {
  const { snapshot } = view
  return separated([
    headerEntries(view),
    answerEntries(view),
    loginOfferEntries(view),
    snapshot ? modelEntries(snapshot) : [],
    snapshot ? fuseEntries(snapshot) : [],
    snapshot ? nodeEntries(view, snapshot.host.paused) : [],
    appEntries(view),
  ])
}

function headerEntries(view: AgentView): MenuEntry[] {
  const { snapshot, pageProblem } = view
  const problems = pageProblem === undefined ? [] : lines(pageProblem)
  if (!snapshot) return [...lines(stateLine(view)), ...problems]
  const { notices } = snapshot
  const more = notices.length - maxNotices
  return [
    text([stateLine(view), ...figuresLine(snapshot)].join(' · ')),
    text(clusterLine(snapshot)),
    ...(snapshot.cluster.cause === 'localNetwork'
      ? [line('Open Local Network settings…', { kind: 'openPane', pane: 'localNetwork' })]
      : []),
    ...notices.slice(0, maxNotices).map(text),
    ...(more > 0 ? [text(`${more} more ${more === 1 ? 'notice' : 'notices'} in the window`)] : []),
    ...problems,
  ]
}

/** Why the last command was not carried out. */
function answerEntries({ answer }: AgentView): MenuEntry[] {
  if (!answer) return []
  const instead = answer.outcome === 'refused' ? answer.instead : undefined
  return [
    ...lines(answer.message),
    ...(instead ? [line(instead.label, { kind: 'command', command: instead.command })] : []),
  ]
}

/** The machine ended in disorder while models ran. */
function fuseEntries({ panicFuse }: AgentSnapshot): MenuEntry[] {
  if (panicFuse === undefined) return []
  const label = panicFuse.state === 'held' ? 'Serve again' : 'Start all at once'
  return [...lines(panicFuse.message), line(label, { kind: 'command', command: { name: 'serveAgain' } })]
}

function nodeEntries(view: AgentView, isPaused: boolean): MenuEntry[] {
  return [
    contextEntry(view.contexts),
    hostAddressEntry(view.hostAddresses),
    isPaused
      ? line(
          'Resume this node',
          { kind: 'command', command: { name: 'resumeNode' } },
          { toolTip: 'Publishes again what answers.' },
        )
      : line(
          'Pause this node',
          { kind: 'command', command: { name: 'pauseNode' } },
          { toolTip: 'Withdraws its endpoints and keeps its models loaded.' },
        ),
    ...(offersPower(view) ? [line('Measure power…', { kind: 'measurePower' })] : []),
  ]
}

function appEntries(view: AgentView): MenuEntry[] {
  const { isHere, isBroken, isQuitting, preferences } = view
  return [
    ...(isBroken
      ? [
          line(
            'Reset preferences',
            { kind: 'resetPreferences' },
            { toolTip: 'Starts with the defaults; the broken file is kept beside.' },
          ),
        ]
      : []),
    ...takeOverEntries(view),
    ...moveEntries(view),
    line('Open Metalbar', { kind: 'open' }, { accelerator: 'CommandOrControl+O' }),
    line('Settings…', { kind: 'open', at: { view: 'settings' } }, { accelerator: 'CommandOrControl+,' }),
    ...(preferences === undefined
      ? []
      : [
          submenu('This app', [
            line('Open in a window of its own', { kind: 'tearOff' }),
            line(
              'Show figures beside the icon',
              { kind: 'prefer', preferences: { showTitle: !preferences.showTitle } },
              { isChecked: preferences.showTitle },
            ),
            line(
              'Ask before quitting',
              { kind: 'prefer', preferences: { onQuit: preferences.onQuit === 'ask' ? 'drain' : 'ask' } },
              { isChecked: preferences.onQuit === 'ask' },
            ),
            line(
              'Notifications',
              { kind: 'prefer', preferences: { notifications: !preferences.notifications } },
              { isChecked: preferences.notifications },
            ),
            ...loginItemEntries(view),
            ...commandLinkEntries(view),
          ]),
        ]),
    ...(isQuitting ? [] : updateEntries(view)),
    ...(isQuitting
      ? []
      : [
          line(
            quitLabel(isHere, preferences?.onQuit === 'ask'),
            { kind: 'quit' },
            { accelerator: 'CommandOrControl+Q' },
          ),
        ]),
  ]
}

function quitLabel(isHere: boolean, asks: boolean): string {
  if (!isHere) return 'Quit: the agent runs on'
  return asks ? 'Quit…' : 'Quit: drain and stop'
}

/** Where power is off on a Mac, or powermetrics does not measure it, for which a rule of sudo may be missing. */
function offersPower({ snapshot, isMac }: AgentView): boolean {
  if (!snapshot) return false
  const { power } = snapshot
  return power ? power.state === 'failed' && power.source === 'powermetrics' : isMac
}
