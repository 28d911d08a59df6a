import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { app, clipboard, shell } from 'electron'
import { cleanLines } from '../contract/clean-text.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import type { ServersAtEnd } from '../serve/host-agent.ts'
import { defaultStateDir } from '../agent-core/state/state-folder.ts'
import { createAgentView, keepShowing } from './agent-view.ts'
import { chooseFile, openPane } from './app-files.ts'
import { serveAppIpc } from './app-ipc.ts'
import { showAppMenu } from './app-menu.ts'
import { openAppLog } from './app-log.ts'
import { refuseAppNap } from './app-nap.ts'
import { registerAppScheme, serveAppScheme } from './app-scheme.ts'
import { appState } from './app-state.ts'
import { carryOut, type DeedOptions, type Question } from './deeds.ts'
import { takeLoginEnvironment } from './login-environment.ts'
import { catchLinks } from './follow-links.ts'
import { logHelperProcesses } from './helper-processes.ts'
import { rescueHiddenIcon } from './hidden-icon.ts'
import { serveIpc } from './ipc.ts'
import { installedApp } from './installed-app.ts'
import { holdAwake } from './keep-awake.ts'
import { keepPreferences } from './keep-preferences.ts'
import { KeptToken } from './kept-token.ts'
import { keychain } from './keychain.ts'
import { loginItemState, setLoginItem } from './login-item.ts'
import { changePowerRuleHere, measurePowerHere, type OwnPower } from './measure-power-here.ts'
import { menuLists } from './menu-lists.ts'
import type { MenuDeed } from './menu/entries.ts'
import { ownLog } from './own-log.ts'
import { securePages } from './page-security.ts'
import { personQuits } from './person-quits.ts'
import { Popover } from './popover.ts'
import { confirm, losesWritten, tellCannotStart } from './questions.ts'
import { stopBeforeQuit } from './quit.ts'
import { targetShower } from './show-target.ts'
import { showAgent } from './shown-agent.ts'
import { followSleep, followSupply } from './sleep.ts'
import { tellHiddenIconOnce } from './tell-hidden-icon-once.ts'
import { tellNews } from './tell-news.ts'
import { showTray } from './tray.ts'
import { appUninstall } from './uninstall.ts'

const { env, platform } = process
const built = import.meta.dirname
const homeDir = app.getPath('home')
const stateDir = defaultStateDir(platform, env, homeDir)
// Chromium's files stay out of the agent's, and two state folders are two apps.
const chromiumDir = path.join(stateDir, 'chromium')
mkdirSync(chromiumDir, { recursive: true, mode: 0o700 })
app.setPath('userData', chromiumDir)

if (app.requestSingleInstanceLock()) {
  app.enableSandbox()
  registerAppScheme()
  // Without a window the app goes on: it is the icon that a person quits by.
  app.on('window-all-closed', () => undefined)
  const followLinks = catchLinks()
  // Never awaited here: Electron is ready only when this module has been evaluated.
  app
    .whenReady()
    .then(() => run(followLinks))
    .catch(cannotStart)
} else {
  // The first one shows its window.
  app.quit()
}

function run(followLinks: ReturnType<typeof catchLinks>): void {
  const log = openAppLog(stateDir, 'info')
  let servers: ServersAtEnd = 'stop'
  const onDefect = (error: unknown) => {
    log.error('defect', { error, text: 'the app ends; its servers go on for the next one' })
    servers = 'keep'
    app.quit()
  }
  process.on('uncaughtException', onDefect)
  process.on('unhandledRejection', onDefect)
  refuseAppNap()
  // Without an icon in the Dock, also where no bundle says so. There on macOS alone.
  if ('setActivationPolicy' in app) app.setActivationPolicy('accessory')
  securePages()
  logHelperProcesses(log)
  const windowFolder = path.join(built, '../renderer')
  serveAppScheme(windowFolder)

  const view = createAgentView()
  const token = new KeptToken({ stateDir, cipher: keychain(platform), log })
  const environment = takeLoginEnvironment(env, log)
  const agent = showAgent({
    stateDir,
    platform,
    env,
    homeDir,
    temporaryDir: tmpdir(),
    windowFolder,
    log,
    isPrepared: environment,
    keptHubToken: () => token.read(),
    onShutdown: ({ keepServing }) => {
      servers = keepServing ? 'keep' : 'stop'
      app.quit()
    },
    onLogLevel: (level) => log.setLevel(level),
    holdAwake,
    onPreferences: (preferences) => view.setState({ preferences }),
    onMoved: (movedKeys) => view.setState({ movedKeys }),
    onHosting: (hosting) => view.setState(hosting),
  })
  const popover = new Popover({
    preload: path.join(built, 'preload.cjs'),
    log,
    icon: () => iconBounds(),
    onProblem: (pageProblem) => view.setState({ pageProblem }),
    mayLose: () => confirm(losesWritten),
  })
  const prefer = keepPreferences(stateDir, view, () => showing.lookAs(lookerNow()))
  const quit = personQuits({ view, prefer, hide: () => popover.hide() })
  const ask = (question: Question) => popover.during(() => confirm(question))
  const ownPower: OwnPower = {
    link: agent.link,
    own: app.isPackaged
      ? { program: path.join(process.resourcesPath, 'bin/metal-agent') }
      : { program: process.execPath, script: path.join(built, '../cli/metal-agent.js') },
    confirm: ask,
  }
  const setLoginItemHere = (isOn: boolean) => setLoginItem(isOn, view.getState().misplaced)
  const deeds: DeedOptions = {
    link: agent.link,
    view,
    stateDir,
    showWindow: (at) => popover.show(at),
    tearOff: () => popover.tearOff(),
    copy: (text) => clipboard.writeText(text),
    openFile: (file) => shell.openPath(file),
    confirm: ask,
    prefer,
    resetPreferences: () => agent.reset(),
    setLoginItem: setLoginItemHere,
    openPane,
    takeOver: () => agent.takeOver(),
    quit,
    measurePower: () => measurePowerHere(ownPower),
    update: (action) => installed.update(action),
    setCommandLink: (isWanted) => installed.setCommandLink(isWanted),
    moveToApplications: () => installed.moveToApplications(),
  }
  const onDeed = (deed: MenuDeed) => void carryOut(deeds, deed).catch(onDefect)
  const installed = installedApp({
    log,
    stateDir,
    homeDir,
    shellPath: async () => (await environment).shellPath,
    view,
    confirm: ask,
    onDeed,
    keepServers: (areKept) => {
      servers = areKept ? 'keep' : 'stop'
    },
    endBy: (finish) => goodEnd.endBy(finish),
  })
  showAppMenu({
    onSettings: () => popover.show({ view: 'settings' }),
    onUpdates: () => onDeed({ kind: 'update', action: 'look' }),
    onQuit: () => {
      // A person who chose to keep it quits by the icon's menu, which says what it does.
      if (view.getState().preferences?.onQuit === 'keep') popover.hide()
      else void quit().catch(onDefect)
    },
  })
  let isMenuOpen = false
  const lookerNow = () => (isMenuOpen || view.getState().preferences?.showTitle === true ? 'menu' : 'icon')
  const showing = keepShowing(agent.link, view)
  const refreshLists = menuLists(agent.link, view, async () => ({
    loginItem: loginItemState(view.getState().misplaced),
    commandLink: await installed.commandLink(),
  }))
  const iconBounds = showTray({
    imageFolder: path.join(built, '../../assets/tray'),
    view,
    log,
    onPress: () => popover.pressed(),
    onClick: (icon) => popover.toggle(icon),
    beforeMenu: refreshLists,
    onMenu: (isOpen) => {
      isMenuOpen = isOpen
      showing.lookAs(lookerNow())
    },
    onDeed,
  })
  const removal = appUninstall({
    link: agent.link,
    view,
    log,
    stateDir,
    homeDir,
    env,
    platform,
    confirm: ask,
    endBy: (finish) => goodEnd.endBy(finish),
  })
  serveIpc(agent.link, log)
  serveAppIpc(agent.link, log, {
    state: () =>
      appState(
        view,
        token,
        () => installed.commandLink(),
        () => popover.isTornOff,
      ),
    setHubToken: (text) => token.set(text),
    removeHubToken: () => token.remove(),
    setLoginItem: setLoginItemHere,
    prefer,
    chooseFile: (what) => popover.during(() => chooseFile(what)),
    openPane,
    changePowerRule: (change) => changePowerRuleHere(ownPower, change),
    update: (action) => installed.update(action),
    setCommandLink: (isWanted) => installed.setCommandLink(isWanted),
    moveToApplications: () => installed.moveToApplications(),
    traces: () => removal.traces(),
    uninstall: (kinds) => removal.uninstall(kinds),
    showLogInFolder: async (file) => shell.showItemInFolder(await ownLog(stateDir, file)),
    onEscape: () => popover.escape(),
    onFocus: (hasKeys) => popover.focused(hasKeys),
    onKeep: (isKept) => popover.keep(isKept),
    hide: () => popover.hide(),
    tearOff: (at) => popover.tearOff(at),
  })
  const goodEnd = stopBeforeQuit({
    log,
    onQuitting: () => view.setState({ isQuitting: true }),
    stop: () => agent.stop(servers),
    onStopped: () => popover.end(),
    skipDrains: () => agent.skipDrains(),
  })
  const onWoke = tellNews({ view, log, prefer, onDeed })
  followSleep({
    log,
    onSleep: (isAsleep) => {
      if (!isAsleep) onWoke()
      return agent.sleeps(isAsleep)
    },
  })
  followSupply({ log, onSupply: () => agent.supplyChanged() })
  followLinks({
    log,
    isPlaced: installed.isPlaced,
    onLink: targetShower(view, { show: (at) => popover.show(at), turn: (at) => popover.turn(at) }),
  })
  rescueHiddenIcon(iconBounds, () => {
    popover.tearOff().catch(onDefect)
    tellHiddenIconOnce({ view, log, prefer })
  })
  app.on('second-instance', () => popover.show())
  app.on('activate', () => popover.show())
}

function cannotStart(error: unknown): void {
  const why = messageOf(error)
  process.stderr.write(`Metalbar cannot start: ${cleanLines(why)}\n`)
  void tellCannotStart(why).finally(() => app.exit(1))
}
