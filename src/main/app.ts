import { mkdirSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import path from 'node:path'
import { app, clipboard, dialog, Menu, shell } from 'electron'
import { leaveOf } from '../agent-core/power/sudo-leave.ts'
import { messageOf } from '../agent-core/support/message-of.ts'
import type { ServersAtEnd } from '../serve/host-agent.ts'
import { defaultStateDir } from '../agent-core/state/state-folder.ts'
import { answer, createAgentView, keepShowing } from './agent-view.ts'
import { appMenu } from './app-menu.ts'
import { openAppLog } from './app-log.ts'
import { registerAppScheme, serveAppScheme } from './app-scheme.ts'
import { carryOut, type DeedOptions } from './deeds.ts'
import { serveIpc } from './ipc.ts'
import { measurePower } from './measure-power.ts'
import { menuLists } from './menu-lists.ts'
import { securePages } from './page-security.ts'
import { Popover } from './popover.ts'
import { defaultPreferences, writePreferences, type ShellPreferences } from './preferences.ts'
import { askToQuit, confirm } from './questions.ts'
import { hurtsModels, stopBeforeQuit } from './quit.ts'
import { showAgent } from './shown-agent.ts'
import { followSleep } from './sleep.ts'
import { showTray } from './tray.ts'

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
  // Never awaited here: Electron is ready only when this module has been evaluated.
  app.whenReady().then(run).catch(cannotStart)
} else {
  // The first one shows its window.
  app.quit()
}

function run(): void {
  const log = openAppLog(stateDir, 'info')
  let servers: ServersAtEnd = 'stop'
  const onDefect = (error: unknown) => {
    log.error('defect', { error, text: 'the app ends; its servers go on for the next one' })
    servers = 'keep'
    app.quit()
  }
  process.on('uncaughtException', onDefect)
  process.on('unhandledRejection', onDefect)
  // Without an icon in the Dock, also where no bundle says so.
  if (platform === 'darwin') app.setActivationPolicy('accessory')
  securePages()
  const windowFolder = path.join(built, '../renderer')
  serveAppScheme(windowFolder)

  const view = createAgentView()
  const agent = showAgent({
    stateDir,
    platform,
    env,
    homeDir,
    temporaryDir: tmpdir(),
    windowFolder,
    log,
    onShutdown: ({ keepServing }) => {
      servers = keepServing ? 'keep' : 'stop'
      app.quit()
    },
    onLogLevel: (level) => log.setLevel(level),
    onPreferences: (preferences) => view.setState({ preferences }),
    onHosting: (hosting) => view.setState(hosting),
  })
  const popover = new Popover({
    preload: path.join(built, 'preload.cjs'),
    log,
    icon: () => iconBounds(),
    onProblem: (pageProblem) => view.setState({ pageProblem }),
  })
  const prefer = async (changes: Partial<ShellPreferences>) => {
    const preferences = { ...defaultPreferences, ...view.getState().preferences, ...changes }
    await writePreferences(stateDir, preferences)
    view.setState({ preferences })
    showing.lookAs(lookerNow())
  }
  const remember = (changes: Partial<ShellPreferences>) =>
    answer(view, () =>
      prefer(changes).then(
        () => undefined,
        (error: unknown) => ({ outcome: 'failed', message: `Done, but not remembered: ${messageOf(error)}` }),
      ),
    )
  const quit = async () => {
    const state = view.getState()
    if (state.preferences?.onQuit !== 'ask' || !hurtsModels(state)) {
      app.quit()
      return
    }
    const { quits, remembered } = await askToQuit()
    if (quits) app.quit()
    else popover.hide()
    if (remembered) await remember({ onQuit: quits ? 'drain' : 'keep' })
  }
  const deeds: DeedOptions = {
    link: agent.link,
    view,
    stateDir,
    showWindow: (at) => popover.show(at),
    tearOff: () => popover.tearOff(),
    copy: (text) => clipboard.writeText(text),
    openFile: (file) => shell.openPath(file),
    confirm,
    prefer,
    resetPreferences: () => agent.reset(),
    quit,
    measurePower: () =>
      measurePower({
        link: agent.link,
        temporaryDir: tmpdir(),
        own: { program: process.execPath, script: path.join(built, '../cli/metal-agent.js') },
        confirm: confirmScript,
        openFile: (file) => shell.openPath(file),
        leave: () => leaveOf({ name: userInfo().username, id: userInfo().uid }),
      }),
  }
  Menu.setApplicationMenu(
    Menu.buildFromTemplate(
      appMenu({
        onSettings: () => popover.show({ view: 'settings' }),
        onQuit: () => {
          // A person who chose to keep it quits by the icon's menu, which says what it does.
          if (view.getState().preferences?.onQuit === 'keep') popover.hide()
          else void quit().catch(onDefect)
        },
      }),
    ),
  )
  let isMenuOpen = false
  const lookerNow = () => (isMenuOpen || view.getState().preferences?.showTitle === true ? 'menu' : 'icon')
  const showing = keepShowing(agent.link, view)
  const iconBounds = showTray({
    imageFolder: path.join(built, '../../assets/tray'),
    view,
    onClick: (icon) => popover.toggle(icon),
    beforeMenu: menuLists(agent.link, view),
    onMenu: (isOpen) => {
      isMenuOpen = isOpen
      showing.lookAs(lookerNow())
    },
    onDeed: (deed) => void carryOut(deeds, deed).catch(onDefect),
  })
  serveIpc(agent.link, log, {
    onEscape: () => popover.escape(),
    onKeep: (isKept) => popover.keep(isKept),
    showInFolder: (file) => shell.showItemInFolder(file),
  })
  stopBeforeQuit({
    log,
    onQuitting: () => view.setState({ isQuitting: true }),
    stop: () => agent.stop(servers),
    skipDrains: () => agent.skipDrains(),
  })
  followSleep({ log, onSleep: (isAsleep) => agent.sleeps(isAsleep) })
  app.on('second-instance', () => popover.show())
  app.on('activate', () => popover.show())
  // Without a window the app goes on: it is the icon that a person quits by.
  app.on('window-all-closed', () => undefined)
}

const confirmScript = (detail: string): Promise<boolean> =>
  confirm({
    message: 'powermetrics runs as root only. Terminal runs this script, which asks for your password:',
    detail,
    yes: 'Open Terminal',
  })

function cannotStart(error: unknown): void {
  dialog.showErrorBox('Metalbar cannot start', messageOf(error))
  app.exit(1)
}
