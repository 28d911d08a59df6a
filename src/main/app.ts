import { mkdirSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import path from 'node:path'
import { app, dialog, Menu, shell } from 'electron'
import { leaveOf } from '../agent-core/power/sudo-leave.ts'
import { messageOf } from '../agent-core/support/message-of.ts'
import type { ServersAtEnd } from '../serve/host-agent.ts'
import { defaultStateDir } from '../agent-core/state/state-folder.ts'
import { answer, command, createAgentView, keepShowing } from './agent-view.ts'
import { openAppLog } from './app-log.ts'
import { registerAppScheme, serveAppScheme } from './app-scheme.ts'
import { serveIpc } from './ipc.ts'
import { measurePower } from './measure-power.ts'
import type { MenuDeed } from './menu.ts'
import { securePages } from './page-security.ts'
import { Popover } from './popover.ts'
import { readPreferences } from './preferences.ts'
import { stopBeforeQuit } from './quit.ts'
import { showAgent } from './shown-agent.ts'
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

async function run(): Promise<void> {
  const preferences = await readPreferences({ stateDir, platform, env, homeDir })
  const log = openAppLog(stateDir, preferences.ok ? preferences.settings.logLevel : 'info')
  let servers: ServersAtEnd = 'stop'
  const onDefect = (error: unknown) => {
    log.error('defect', { error, text: 'the app ends; its servers go on for the next one' })
    servers = 'keep'
    app.quit()
  }
  process.on('uncaughtException', onDefect)
  process.on('unhandledRejection', onDefect)
  securePages()
  const windowFolder = path.join(built, '../renderer')
  serveAppScheme(windowFolder)
  Menu.setApplicationMenu(Menu.buildFromTemplate([{ role: 'appMenu' }, { role: 'editMenu' }, { role: 'windowMenu' }]))

  const view = createAgentView()
  const popover = new Popover({ preload: path.join(built, 'preload.cjs'), log, icon: () => iconBounds() })
  const onDeed = (deed: MenuDeed) => {
    if (deed.kind === 'command') void command(agent.link, view, deed.command)
    else if (deed.kind === 'measurePower') void answer(view, askToMeasure)
    else if (deed.kind === 'open') popover.show()
    else app.quit()
  }
  const askToMeasure = () =>
    measurePower({
      link: agent.link,
      temporaryDir: tmpdir(),
      own: { program: process.execPath, script: path.join(built, '../cli/metal-agent.js') },
      confirm: confirmScript,
      openFile: (file) => shell.openPath(file),
      leave: () => leaveOf({ name: userInfo().username, id: userInfo().uid }),
    })
  const iconBounds = showTray({
    imageFolder: path.join(built, '../../assets/tray'),
    view,
    onClick: () => popover.toggle(),
    onDeed,
  })
  const agent = showAgent({
    preferences,
    stateDir,
    env,
    temporaryDir: tmpdir(),
    windowFolder,
    log,
    onShutdown: ({ keepServing }) => {
      servers = keepServing ? 'keep' : 'stop'
      app.quit()
    },
    onLogLevel: (level) => log.setLevel(level),
  })
  keepShowing(agent.link, view)
  void agent.isHere.then((isHere) => view.setState({ isHere }))
  serveIpc(agent.link, log, (file) => shell.showItemInFolder(file))
  stopBeforeQuit({ log, onQuitting: () => view.setState({ isQuitting: true }), stop: () => agent.stop(servers) })
  app.on('second-instance', () => popover.show())
  app.on('activate', () => popover.show())
  // Without a window the app goes on: it is the icon that a person quits by.
  app.on('window-all-closed', () => undefined)
}

async function confirmScript(detail: string): Promise<boolean> {
  const { response } = await dialog.showMessageBox({
    type: 'question',
    message: 'powermetrics runs as root only. Terminal runs this script, which asks for your password:',
    detail,
    buttons: ['Open Terminal', 'Cancel'],
    defaultId: 1,
    cancelId: 1,
  })
  return response === 0
}

function cannotStart(error: unknown): void {
  dialog.showErrorBox('Metalbar cannot start', messageOf(error))
  app.exit(1)
}
