import path from 'node:path'
import { looksLikeProduction } from '../../contract/cluster.ts'
import { formatBytes, formatRoundTokenRate, formatShare, formatSpan } from '../../contract/format.ts'
import type { Answer } from '../../contract/queries.ts'
import {
  heldBytesOf,
  type Progress,
  type ServiceFigures,
  type ServiceState,
  type ServiceView,
  stepNames,
} from '../../contract/service.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { actionsFor, stateWord, stepWords } from '../../contract/words.ts'
import type { AgentView, Listed, ListName } from '../agent/agent-view.ts'
import { line, lines, type MenuAction, type MenuEntry, nameWithin, separated, submenu, text } from './menu-entries.ts'
import { clusterLine, figuresLine, isTroubled, stateLine } from './icon.ts'

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
    // What a person is to do stands at its end.
    ...lines(clusterLine(snapshot)),
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
          { toolTip: 'Publishes its models again.' },
        )
      : line(
          'Pause this node',
          { kind: 'command', command: { name: 'pauseNode' } },
          { toolTip: 'Withdraws its endpoints and keeps its models loaded.' },
        ),
    ...proxyEntries(view),
    ...(offersPower(view) ? [line('Measure power…', { kind: 'measurePower' })] : []),
  ]
}

function proxyEntries({ snapshot }: AgentView): MenuEntry[] {
  const proxy = snapshot?.host.clientProxy
  if (proxy === undefined) return []
  const url = `${proxy}/v1`
  return [line('Copy URL for programs on this Mac', { kind: 'copy', text: url }, { toolTip: url })]
}

function appEntries(view: AgentView): MenuEntry[] {
  const { isHere, isBroken, isQuitting, preferences } = view
  return [
    ...(isBroken
      ? [
          line(
            'Reset preferences',
            { kind: 'resetPreferences' },
            { toolTip: 'Starts with the defaults; the broken file is kept next to it.' },
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
            line('Open in its own window', { kind: 'tearOff' }),
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
  if (!isHere) return 'Quit: the agent keeps running'
  return asks ? 'Quit…' : 'Quit: drain and stop'
}

/** Where power is off on a Mac, or powermetrics does not measure it, for which a rule of sudo may be missing. */
function offersPower({ snapshot, isMac }: AgentView): boolean {
  if (!snapshot) return false
  const { power } = snapshot
  return power ? power.state === 'failed' && power.source === 'powermetrics' : isMac
}

/** A shape and a word, never a colour. */
const shapes: Readonly<Record<ServiceState, string>> = {
  ready: '●',
  unready: '▲',
  waiting: '○',
  fetching: '◐',
  starting: '◐',
  'crash-looping': '▲',
  stopping: '◌',
  stopped: '○',
  refused: '▲',
  foreign: '◇',
}

/** With more the menu would not fit on the screen of a small Mac. */
const maxModels = 15

/** Each model, those in trouble before the others where there is no room for all. */
function modelEntries(snapshot: AgentSnapshot): MenuEntry[] {
  const { services } = snapshot
  const entry = (service: ServiceView) => modelEntry(service, snapshot)
  if (services.length <= maxModels) return services.map(entry)
  const first = new Set([...services.filter(isTroubled), ...services].slice(0, maxModels))
  const rest = services.filter((service) => !first.has(service))
  return [
    ...services.filter((service) => first.has(service)).map(entry),
    ...(rest.length === 0 ? [] : [submenu(`${rest.length} more`, rest.map(entry))]),
  ]
}

function modelEntry(service: ServiceView, snapshot: AgentSnapshot): MenuEntry {
  const { uid, message, url, logFile } = service
  return submenu(
    `${shapeOf(service)} ${nameIn(snapshot, service)}   ${figuresOf(service, snapshot)}`,
    separated([
      [text(message)],
      actionsFor(service).map(({ label, command }) => line(label, { kind: 'command', command })),
      [
        ...(url === undefined ? [] : [line('Copy URL', { kind: 'copy', text: url }, { toolTip: nameWithin(url, 90) })]),
        ...(logFile === undefined ? [] : [line('Show log', { kind: 'showLog', file: logFile } satisfies MenuAction)]),
        ...whyEntry(service),
        line('Show in window', { kind: 'open', at: { service: uid } }),
      ],
    ]),
  )
}

function shapeOf(service: ServiceView): string {
  const { state, reason } = service
  if (reason === 'Paused' || reason === 'Asleep') return shapes.waiting
  return isTroubled(service) ? '▲' : shapes[state]
}

/** The namespace only where there are several. */
function nameIn({ services }: AgentSnapshot, { namespace, name }: ServiceView): string {
  return nameWithin(services.every((other) => other.namespace === namespace) ? name : `${namespace}/${name}`)
}

/** Memory and speed of what serves, the progress of what is on its way, for all else the word of its state. */
function figuresOf(service: ServiceView, snapshot: AgentSnapshot): string {
  const { uid, state, reason } = service
  const figures = snapshot.figures[uid] ?? {}
  if (reason === 'InsufficientMemory') return shortage(service, snapshot)
  if (state === 'ready') return [...memoryOf(figures), ...speedOf(figures)].join(' · ') || stateWord(service)
  if (state === 'fetching') return fetched(service, figures.progress)
  if (state === 'starting') return [stateWord(service), ...memoryOf(figures)].join(' · ')
  return stateWord(service)
}

function memoryOf(figures: ServiceFigures): string[] {
  const held = heldBytesOf(figures)
  return held === undefined ? [] : [formatBytes(held)]
}

function speedOf({ runtime }: ServiceFigures): string[] {
  if (runtime?.state !== 'reported') return []
  const { generatedTokensPerSecond: rate, requestsRunning = 0, slow } = runtime
  return [
    ...(rate === undefined ? [] : [formatRoundTokenRate(rate)]),
    ...(requestsRunning === 0 ? [] : [requestsRunning === 1 ? '1 request' : `${requestsRunning} requests`]),
    ...(slow === undefined ? [] : ['slower than before']),
  ]
}

function shortage({ memory: need }: ServiceView, { memory }: AgentSnapshot): string {
  if (need?.needBytes === undefined) return 'does not fit'
  if (memory?.budgetBytes === undefined) return `needs ${formatBytes(need.needBytes)}`
  const free = Math.max(0, memory.budgetBytes - memory.modelsBytes)
  return `needs ${formatBytes(need.needBytes)}, ${formatBytes(free)} free`
}

function fetched(service: ServiceView, progress: Progress | undefined): string {
  const word = progress?.phase === 'verifying' ? 'Checking' : stateWord(service)
  if (!progress) return word
  const { doneBytes, totalBytes, bytesPerSecond, phase } = progress
  if (totalBytes === undefined || totalBytes === 0) return `${word} · ${formatBytes(doneBytes)}`
  const percent = `${word} ${Math.min(100, Math.floor((100 * doneBytes) / totalBytes))} %`
  if (phase === 'waiting') return `${percent} · waits`
  const missing = totalBytes - doneBytes
  return bytesPerSecond > 0 && missing > 0
    ? `${percent} · ${formatSpan((1_000 * missing) / bytesPerSecond)} left`
    : percent
}

const stepMarks = { done: '✓', active: '◐', waiting: '○', failed: '✗' } as const

const usual: ReadonlySet<ServiceState> = new Set(['ready', 'fetching', 'starting', 'stopping'])

/** What there is to know about one that does not do what it should; nothing for one that does. */
function whyEntry(service: ServiceView): MenuEntry[] {
  const { state, message, crash, memory, hold, steps } = service
  if (usual.has(state) && !isTroubled(service)) return []
  const crashes = crash === undefined || crash.failures === 0 ? [] : [crash.message, crash.firstError ?? '']
  return [
    submenu(
      'Why?',
      separated([
        lines(message),
        hold === undefined || hold.message === message ? [] : lines(hold.message),
        crashes.filter((sentence) => sentence !== '').flatMap((sentence) => lines(sentence, 3)),
        (memory?.waysToFit ?? []).slice(0, 5).flatMap(({ sentence }) => lines(sentence, 2)),
        stepNames.map((name) => stepLine(steps[name], stepWords[name])),
      ]),
    ),
  ]
}

const stepLine = ({ status, message }: ServiceView['steps']['fetched'], word: string): MenuEntry =>
  text(`${stepMarks[status]} ${word}${message === undefined ? '' : `: ${message}`}`)

/** More do not fit on a screen; the command line has them all. */
const maxChoices = 30

function contextEntry(listed: Listed<'contexts'>): MenuEntry {
  const reload = line('Reload kubeconfig', { kind: 'command', command: { name: 'reloadKubeconfig' } })
  return submenu(
    'Context',
    separated([listEntries(listed, ({ contexts }) => contexts.map(contextLine), 'metal-agent context list'), [reload]]),
  )
}

const contextLine = ({ name, server, inUse }: Answer<'contexts'>['contexts'][number]): MenuEntry =>
  line(
    `${nameWithin(name, 36)}${!inUse && looksLikeProduction(name) ? ' (asks first)' : ''}`,
    { kind: 'command', command: { name: 'selectContext', context: name } },
    { isChecked: inUse, ...(server !== '' && { toolTip: nameWithin(server, 90) }) },
  )

function hostAddressEntry(listed: Listed<'hostAddresses'>): MenuEntry {
  return submenu(
    'Host address',
    separated([
      listEntries(listed, addressLines, 'metal-agent host-ip list'),
      [line('Other…', { kind: 'open', at: { view: 'settings', field: 'hostAddress' } })],
    ]),
  )
}

function addressLines({ automatic, message, addresses }: Answer<'hostAddresses'>): MenuEntry[] {
  const inUse = addresses.find((one) => one.inUse)
  const chosen = automatic && inUse ? ` (${inUse.address}, ${inUse.interface})` : ''
  return [
    ...(inUse ? [] : [text(message)]),
    line(
      `Automatic${chosen}`,
      { kind: 'command', command: { name: 'setHostAddress', address: 'automatic' } },
      { isChecked: automatic },
    ),
    ...addresses.filter(({ address }) => isIpv4(address)).map((one) => addressLine(one, automatic)),
  ]
}

function addressLine(
  { address, interface: from, inUse, unfit }: Answer<'hostAddresses'>['addresses'][number],
  automatic: boolean,
): MenuEntry {
  const label = `${address}   ${from}`
  if (unfit !== undefined && !inUse) return text(`${label}: ${unfit}`)
  return line(
    label,
    { kind: 'command', command: { name: 'setHostAddress', address } },
    { isChecked: inUse && !automatic },
  )
}

/** An EndpointSlice of this agent has addresses of this kind alone. */
const isIpv4 = (address: string): boolean => /^\d+(?:\.\d+){3}$/.test(address)

function listEntries<N extends ListName>(
  listed: Listed<N>,
  entriesOf: (answer: Answer<N>) => readonly MenuEntry[],
  command: string,
): readonly MenuEntry[] {
  if (listed === undefined) return [text('The agent has not answered yet; open the menu again.')]
  if ('problem' in listed) return [text(listed.problem)]
  const entries = entriesOf(listed)
  const more = entries.length - maxChoices
  return more > 0 ? [...entries.slice(0, maxChoices), text(`${more} more: ${command}`)] : entries
}

/** Whether it is opened at login, as macOS says; nothing where it cannot be. */
function loginItemEntries({ loginItem }: AgentView): MenuEntry[] {
  if (loginItem === 'unavailable') return []
  if (loginItem === 'requires-approval') {
    return [
      line(
        'Open at login: allow it in System Settings…',
        { kind: 'openPane', pane: 'loginItems' },
        { toolTip: 'macOS asks that you allow it under General, Login Items.' },
      ),
    ]
  }
  const isOn = loginItem === 'enabled'
  return [line('Open at login', { kind: 'loginItem', isOn: !isOn }, { isChecked: isOn })]
}

/** Said once, until the app ends or it is done. */
function loginOfferEntries({ offersLoginItem, loginItem }: AgentView): MenuEntry[] {
  if (!offersLoginItem || loginItem !== 'not-registered') return []
  return [
    line(
      'Open Metalbar at login',
      { kind: 'loginItem', isOn: true },
      { toolTip: 'This Mac then serves its models again after a restart. Later you find this under This app.' },
    ),
  ]
}

/** Another program runs the agent: this app shows it, or takes its place. */
function takeOverEntries({ isHere, isQuitting }: AgentView): MenuEntry[] {
  if (isHere || isQuitting) return []
  return [
    text('A metal-agent runs this node; this app shows it'),
    line('Run the agent in this app…', { kind: 'takeOver' }, { toolTip: 'Models keep serving. You are asked first.' }),
  ]
}

/** How far a newer app is, with what comes next. */
function updateEntries({ update, lastUpdate }: AgentView): MenuEntry[] {
  const outcome = lastUpdate === undefined ? [] : lines(outcomeOf(lastUpdate))
  const look = line('Check for updates…', { kind: 'update', action: 'look' })
  switch (update.step) {
    case 'unavailable':
      return update.why === 'managed' ? [...outcome, text('Your administrator updates this Mac')] : outcome
    case 'unknown':
    case 'newest':
      return [...outcome, look]
    case 'looking':
      return [text('Looking for updates…')]
    case 'available': {
      const size = update.bytes === undefined ? '' : ` (${formatBytes(update.bytes)})`
      return [line(`Download Metalbar ${update.version}${size}`, { kind: 'update', action: 'download' })]
    }
    case 'downloading': {
      const { version, doneBytes, totalBytes } = update
      const part = totalBytes === undefined ? '' : ` · ${formatShare(doneBytes / Math.max(totalBytes, 1))}`
      return [
        text(`Downloading Metalbar ${version}${part}`),
        line('Cancel download', { kind: 'update', action: 'cancel' }),
      ]
    }
    case 'downloaded':
      return [
        line(
          `Restart to update to ${update.version}`,
          { kind: 'update', action: 'install' },
          { toolTip: 'Models keep serving meanwhile, and the new version takes them over.' },
        ),
      ]
    case 'installing':
      return [text(`Getting Metalbar ${update.version} ready…`)]
    case 'failed':
      return [...lines(update.message), look]
  }
}

/** The outcome of the last update, as a sentence. */
export const outcomeOf = ({ wanted, runs }: NonNullable<AgentView['lastUpdate']>): string =>
  wanted === runs ? `Metalbar is now ${runs}.` : `The update to ${wanted} failed; Metalbar ${runs} is still running.`

/** From there it can be updated and opened at login. */
const moveEntries = ({ misplaced }: AgentView): MenuEntry[] =>
  misplaced === undefined
    ? []
    : [
        line(
          'Move to Applications…',
          { kind: 'moveToApplications' },
          { toolTip: 'It closes and opens again from there; models keep serving.' },
        ),
      ]

/** The link by which a shell finds metal-agent. */
function commandLinkEntries({ commandLink }: AgentView): MenuEntry[] {
  switch (commandLink.state) {
    case 'unavailable':
      return []
    case 'absent':
      return [line('Install the command metal-agent', { kind: 'commandLink', isWanted: true })]
    case 'linked':
      return [
        line(
          `Command metal-agent in ${path.dirname(commandLink.file)}`,
          { kind: 'commandLink', isWanted: false },
          { isChecked: true, toolTip: `Removes ${commandLink.file}, which links to this app.` },
        ),
      ]
    case 'outdated':
      return [
        line(
          'Repair the command metal-agent',
          { kind: 'commandLink', isWanted: true },
          { toolTip: `${commandLink.file} links to where the app used to be.` },
        ),
      ]
    case 'foreign':
      return [text(`Another metal-agent is in ${path.dirname(commandLink.file)}`)]
  }
}
