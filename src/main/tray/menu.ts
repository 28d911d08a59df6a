import path from 'node:path'
import { isIpv6 } from '../../contract/addresses.ts'
import { looksLikeProduction } from '../../contract/cluster.ts'
import { formatBytes, formatRoundTokenRate } from '../../contract/format.ts'
import type { Answer } from '../../contract/queries.ts'
import {
  heldBytesOf,
  percentOf,
  type Progress,
  type ServiceFigures,
  type ServiceState,
  type ServiceView,
  stepNames,
  timeLeftOf,
} from '../../contract/service.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { actionsFor, actionWords, sharedWords, stateWord } from '../../contract/words.ts'
import type { AgentView, Listed, ListName } from '../agent/agent-view.ts'
import { line, lines, type MenuEntry, nameWithin, separated, submenu, text } from './menu-entries.ts'
import { clusterLine, figuresLine, isTroubled, stateLine } from './icon.ts'
import { menuWords, updateWords } from '../words.ts'

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
      ? [line(menuWords.openLocalNetwork, ['openPane', 'localNetwork'])]
      : []),
    ...notices.slice(0, maxNotices).map(text),
    ...(more > 0 ? [text(menuWords.moreNotices(more))] : []),
    ...problems,
  ]
}

/** Why the last command was not carried out. */
function answerEntries({ answer }: AgentView): MenuEntry[] {
  if (!answer) return []
  const instead = answer.outcome === 'refused' ? answer.instead : undefined
  return [...lines(answer.message), ...(instead ? [line(instead.label, ['command', instead.command])] : [])]
}

function nodeEntries(view: AgentView, isPaused: boolean): MenuEntry[] {
  const { resume, pause } = menuWords
  return [
    contextEntry(view.contexts),
    hostAddressEntry(view.hostAddresses),
    isPaused
      ? line(resume.label, ['command', { name: 'resumeNode' }], { toolTip: resume.toolTip })
      : line(pause.label, ['command', { name: 'pauseNode' }], { toolTip: pause.toolTip }),
    ...proxyEntries(view),
    ...(offersPower(view) ? [line(menuWords.measurePower, ['measurePower'])] : []),
  ]
}

function proxyEntries({ snapshot }: AgentView): MenuEntry[] {
  const proxy = snapshot?.host.clientProxy
  if (proxy === undefined) return []
  const url = `${proxy}/v1`
  return [line(menuWords.copyProxy, ['copy', url], { toolTip: url })]
}

function appEntries(view: AgentView): MenuEntry[] {
  const { isHere, isBroken, isQuitting, preferences } = view
  const { resetPreferences } = menuWords
  return [
    ...(isBroken ? [line(resetPreferences.label, ['resetPreferences'], { toolTip: resetPreferences.toolTip })] : []),
    ...takeOverEntries(view),
    ...moveEntries(view),
    line(menuWords.open, ['open'], { accelerator: 'CommandOrControl+O' }),
    line(menuWords.settings, ['open', { view: 'settings' }], { accelerator: 'CommandOrControl+,' }),
    ...(preferences === undefined
      ? []
      : [
          submenu(menuWords.app, [
            line(sharedWords.ownWindow, ['tearOff']),
            line(menuWords.showTitle, ['prefer', { showTitle: !preferences.showTitle }], {
              isChecked: preferences.showTitle,
            }),
            line(menuWords.askBeforeQuit, ['prefer', { onQuit: preferences.onQuit === 'ask' ? 'drain' : 'ask' }], {
              isChecked: preferences.onQuit === 'ask',
            }),
            line(sharedWords.notifications, ['prefer', { notifications: !preferences.notifications }], {
              isChecked: preferences.notifications,
            }),
            ...loginItemEntries(view),
            ...commandLinkEntries(view),
          ]),
        ]),
    ...(isQuitting ? [] : updateEntries(view)),
    ...(isQuitting
      ? []
      : [line(quitLabel(isHere, preferences?.onQuit === 'ask'), ['quit'], { accelerator: 'CommandOrControl+Q' })]),
  ]
}

function quitLabel(isHere: boolean, asks: boolean): string {
  if (!isHere) return menuWords.quit.staysRunning
  return asks ? menuWords.quit.asks : menuWords.quit.drains
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
    ...(rest.length === 0 ? [] : [submenu(menuWords.moreModels(rest.length), rest.map(entry))]),
  ]
}

function modelEntry(service: ServiceView, snapshot: AgentSnapshot): MenuEntry {
  const { uid, message, url, logFile } = service
  return submenu(
    `${shapeOf(service)} ${nameIn(snapshot, service)}   ${figuresOf(service, snapshot)}`,
    separated([
      [text(message)],
      actionsFor(service).map(({ label, command }) => line(label, ['command', command])),
      [
        ...(url === undefined ? [] : [line(menuWords.copyUrl, ['copy', url], { toolTip: nameWithin(url, 90) })]),
        ...(logFile === undefined ? [] : [line(menuWords.showLog, ['showLog', logFile])]),
        ...whyEntry(service),
        line(menuWords.showInWindow, ['open', { service: uid }]),
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

const figureWords = menuWords.figures

/** Memory and speed of what serves, the progress of what is on its way, for all else the word of its state. */
function figuresOf(service: ServiceView, snapshot: AgentSnapshot): string {
  const { uid, state, reason, memory } = service
  const figures = snapshot.figures[uid] ?? {}
  if (reason === 'InsufficientMemory') return memory?.shortage ?? stateWord(service)
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
    ...(requestsRunning === 0 ? [] : [sharedWords.requests(requestsRunning)]),
    ...(slow === undefined ? [] : [sharedWords.slower]),
  ]
}

function fetched(service: ServiceView, progress: Progress | undefined): string {
  const word = progress?.phase === 'verifying' ? figureWords.checking : stateWord(service)
  if (!progress) return word
  const percent = percentOf(progress)
  if (percent === undefined) return `${word} · ${formatBytes(progress.doneBytes)}`
  const leftMs = timeLeftOf(progress)
  const known = figureWords.percent(word, percent)
  if (progress.phase === 'waiting') return `${known} · ${figureWords.waits}`
  return leftMs === undefined ? known : `${known} · ${figureWords.left(leftMs)}`
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
      menuWords.why,
      separated([
        lines(message),
        hold === undefined || hold.message === message ? [] : lines(hold.message),
        crashes.filter((sentence) => sentence !== '').flatMap((sentence) => lines(sentence, 3)),
        (memory?.waysToFit ?? []).slice(0, 5).flatMap(({ sentence }) => lines(sentence, 2)),
        stepNames.map((name) => text(menuWords.step(stepMarks[steps[name].status], name, steps[name].message))),
      ]),
    ),
  ]
}

/** More do not fit on a screen; the command line has them all. */
const maxChoices = 30

function contextEntry(listed: Listed<'contexts'>): MenuEntry {
  const reload = line(menuWords.reload, ['command', { name: 'reloadKubeconfig' }])
  return submenu(
    menuWords.context,
    separated([listEntries(listed, ({ contexts }) => contexts.map(contextLine), menuWords.moreContexts), [reload]]),
  )
}

function contextLine({ name, server, inUse }: Answer<'contexts'>['contexts'][number]): MenuEntry {
  const short = nameWithin(name, 36)
  return line(
    !inUse && looksLikeProduction(name) ? menuWords.asksFirst(short) : short,
    ['command', { name: 'selectContext', context: name }],
    { isChecked: inUse, ...(server !== '' && { toolTip: nameWithin(server, 90) }) },
  )
}

function hostAddressEntry(listed: Listed<'hostAddresses'>): MenuEntry {
  return submenu(
    menuWords.address,
    separated([
      listEntries(listed, addressLines, menuWords.moreAddresses),
      [line(menuWords.otherAddress, ['open', { view: 'settings', field: 'hostAddress' }])],
    ]),
  )
}

function addressLines({ automatic, message, addresses }: Answer<'hostAddresses'>): MenuEntry[] {
  const inUse = addresses.find((one) => one.inUse)
  return [
    ...(inUse ? [] : [text(message)]),
    line(
      automatic && inUse ? menuWords.automaticIs(inUse.address, inUse.interface) : menuWords.automatic,
      ['command', { name: 'setHostAddress', address: 'automatic' }],
      { isChecked: automatic },
    ),
    // Each interface has one of IPv6 that nobody else can reach.
    ...addresses
      .filter(({ address, unfit }) => unfit === undefined || !isIpv6(address))
      .map((one) => addressLine(one, automatic)),
  ]
}

function addressLine(
  { address, interface: from, inUse, unfit }: Answer<'hostAddresses'>['addresses'][number],
  automatic: boolean,
): MenuEntry {
  const label = `${address}   ${from}`
  if (unfit !== undefined && !inUse) return text(`${label}: ${unfit}`)
  return line(label, ['command', { name: 'setHostAddress', address }], { isChecked: inUse && !automatic })
}

function listEntries<N extends ListName>(
  listed: Listed<N>,
  entriesOf: (answer: Answer<N>) => readonly MenuEntry[],
  moreWords: (count: number) => string,
): readonly MenuEntry[] {
  if (listed === undefined) return [text(menuWords.notAnswered)]
  if ('problem' in listed) return [text(listed.problem)]
  const entries = entriesOf(listed)
  const more = entries.length - maxChoices
  return more > 0 ? [...entries.slice(0, maxChoices), text(moreWords(more))] : entries
}

/** Whether it is opened at login, as macOS says; nothing where it cannot be. */
function loginItemEntries({ loginItem }: AgentView): MenuEntry[] {
  if (loginItem === 'unavailable') return []
  if (loginItem === 'requires-approval') {
    const { label, toolTip } = menuWords.allowLoginItem
    return [line(label, ['openPane', 'loginItems'], { toolTip })]
  }
  const isOn = loginItem === 'enabled'
  return [line(sharedWords.loginItem, ['setLoginItem', !isOn], { isChecked: isOn })]
}

/** Said once, until the app ends or it is done. */
function loginOfferEntries({ offersLoginItem, loginItem }: AgentView): MenuEntry[] {
  if (!offersLoginItem || loginItem !== 'not-registered') return []
  const { label, toolTip } = menuWords.offerLoginItem
  return [line(label, ['setLoginItem', true], { toolTip })]
}

/** Another program runs the agent: this app shows it, or takes its place. */
function takeOverEntries({ isHere, isQuitting }: AgentView): MenuEntry[] {
  if (isHere || isQuitting) return []
  const { why, label, toolTip } = menuWords.takeOver
  return [text(why), line(label, ['takeOver'], { toolTip })]
}

/** How far a newer app is, with what comes next. */
function updateEntries({ update, lastUpdate }: AgentView): MenuEntry[] {
  const outcome = lastUpdate === undefined ? [] : lines(sharedWords.lastUpdate(lastUpdate))
  const look = line(updateWords.look, ['update', 'look'])
  switch (update.step) {
    case 'unavailable':
      return update.why === 'managed' ? [...outcome, text(updateWords.managed)] : outcome
    case 'unknown':
    case 'newest':
      return [...outcome, look]
    case 'looking':
      return [text(sharedWords.lookingForUpdates)]
    case 'available':
      return [line(updateWords.download(update.version, update.bytes), ['update', 'download'])]
    case 'downloading': {
      const cancel = line(actionWords.cancelDownload.label, ['update', 'cancel'])
      return [text(updateWords.downloading(update.version, percentOf(update))), cancel]
    }
    case 'downloaded': {
      const { label, toolTip } = updateWords.install
      return [line(label(update.version), ['update', 'install'], { toolTip })]
    }
    case 'installing':
      return [text(updateWords.installing(update.version))]
    case 'failed':
      return [...lines(update.message), look]
  }
}

/** From there it can be updated and opened at login. */
function moveEntries({ misplaced }: AgentView): MenuEntry[] {
  if (misplaced === undefined) return []
  const { label, toolTip } = menuWords.move
  return [line(label, ['moveToApplications'], { toolTip })]
}

/** The link by which a shell finds metal-agent. */
function commandLinkEntries({ commandLink }: AgentView): MenuEntry[] {
  const words = menuWords.commandLink
  switch (commandLink.state) {
    case 'unavailable':
      return []
    case 'absent':
      return [line(words.install, ['setCommandLink', true])]
    case 'linked':
      return [
        line(words.linked(path.dirname(commandLink.file)), ['setCommandLink', false], {
          isChecked: true,
          toolTip: words.unlinks(commandLink.file),
        }),
      ]
    case 'outdated':
      return [line(words.repair, ['setCommandLink', true], { toolTip: words.isOutdated(commandLink.file) })]
    case 'foreign':
      return [text(words.foreign(path.dirname(commandLink.file)))]
  }
}
