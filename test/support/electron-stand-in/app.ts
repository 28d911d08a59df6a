import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { isInstalled, loginItem } from './login-item.ts'
import { infoOf, ownBundle } from './bundle.ts'
import { dock, setActivationPolicy } from './dock.ts'
import { ElectronEmitter, refuseUnknown } from './electron-types.ts'
import { isInApplicationsFolder, moveToApplicationsFolder, type MoveOptions } from './applications-folder.ts'
import { PreventableEvent } from './preventable-event.ts'
import { handleSignals } from './signals.ts'
import { singleInstance } from './single-instance.ts'

/** The link that the system opened the app with. */
const linkVariable = 'ELECTRON_STAND_IN_LINK'

const manifest = z.object({ name: z.string(), productName: z.string().optional(), main: z.string() })

/** As far as the app's life depends on it. */
interface OpenWindow {
  close(): void
  destroy(): void
}

/** As on macOS, whatever this system is. */
class App extends ElectronEmitter {
  readonly isPackaged = isInstalled
  readonly runningUnderARM64Translation = false
  readonly getLoginItemSettings = loginItem.get
  readonly setLoginItemSettings = loginItem.set
  readonly dock = dock
  readonly setActivationPolicy = setActivationPolicy
  readonly windows = new Set<OpenWindow>()
  isSandboxed = false
  #name = 'Electron'
  /** Whether the app is the one that a person works in. */
  #isActive = false
  /** Whether the system makes it that when it asks, and lets its windows have the keys. */
  mayActivate = true
  mayFocus = true
  readonly #paths = new Map([
    ['home', homedir()],
    ['temp', tmpdir()],
    ['downloads', path.join(homedir(), 'Downloads')],
    ['userData', path.join(homedir(), '.config/metalbar')],
  ])
  readonly #ready = Promise.withResolvers<undefined>()
  #isReady = false
  #isQuitting = false
  #isExiting = false
  #told: Promise<void> | undefined

  constructor() {
    super('App')
  }

  /**
   * The life of a process, when the program's own module was evaluated: until then Electron is not ready. A link that started it comes before
   * it is. Ended by signals, alive without any timer or socket.
   */
  begin(): void {
    if (isInstalled) Object.assign(process, { resourcesPath: path.join(ownBundle, 'Contents/Resources') })
    setTimeout(() => {
      handleSignals(() => this.quit())
      const link = process.env[linkVariable]
      if (link !== undefined) this.openLink(link)
      this.becomeReady()
    })
    setInterval(() => undefined, 60_000)
  }

  /** As the system does. The documentation wants it prevented by whoever follows it, although Electron only tells of it so far. */
  openLink(link: string): void {
    const event = new PreventableEvent()
    const isHeard = this.emit('open-url', event, link)
    if (isHeard && !event.defaultPrevented) throw new Error(`Who follows ${link} did not prevent open-url.`)
  }

  setAsDefaultProtocolClient(scheme: string): boolean {
    return /^[a-z]+$/.test(scheme)
  }

  becomeReady(): void {
    this.#isReady = true
    this.emit('ready')
    this.#ready.resolve(undefined)
  }

  getName(): string {
    return this.#name
  }

  /** As Electron does before the app's own code runs: the name is that of the packed manifest. Answers what it starts with. */
  readManifest(folder: string): string {
    const text = readFileSync(path.join(folder, 'package.json'), 'utf8')
    const { name, productName = name, main } = manifest.parse(JSON.parse(text))
    this.#name = productName
    return path.join(folder, main)
  }

  getVersion(): string {
    return process.env['ELECTRON_STAND_IN_BUNDLE'] === undefined
      ? '0.0.0'
      : infoOf(ownBundle).CFBundleShortVersionString
  }

  isInApplicationsFolder(): boolean {
    return isInApplicationsFolder()
  }

  moveToApplicationsFolder(options: MoveOptions = {}): boolean {
    const moved = moveToApplicationsFolder(options)
    if (moved === 'quits') this.quit()
    return moved !== 'stays'
  }

  /** The next one is started by the test. */
  relaunch({ args = [] }: { readonly args?: readonly string[] } = {}): void {
    writeFileSync(path.join(homedir(), 'relaunched'), args.join('\n'))
  }

  getAppPath(): string {
    return process.cwd()
  }

  getPath(name: string): string {
    const found = this.#paths.get(name)
    if (found === undefined) throw new Error(`Failed to get '${name}' path`)
    return found
  }

  setPath(name: string, folder: string): void {
    if (!path.isAbsolute(folder)) throw new Error('Path must be absolute')
    if (!statSync(folder).isDirectory()) throw new Error('Path must be a folder')
    this.#paths.set(name, folder)
  }

  whenReady(): Promise<undefined> {
    return this.#ready.promise
  }

  isReady(): boolean {
    return this.#isReady
  }

  /** What most of Electron throws where it is used too early. */
  mustBeReady(what: string): void {
    if (!this.#isReady) throw new Error(`${what} before app is ready`)
  }

  enableSandbox(): void {
    if (this.#isReady) throw new Error('app.enableSandbox() can only be called before app is ready')
    this.isSandboxed = true
  }

  requestSingleInstanceLock(): boolean {
    const first = singleInstance(this.getPath('userData'), () => this.emit('second-instance'))
    this.#told = first?.told
    return first === undefined
  }

  focus(options: { readonly steal?: boolean } = {}): void {
    refuseUnknown('FocusOptions', options)
    if (options.steal === true && this.mayActivate) this.activated()
  }

  isActive(): boolean {
    return this.#isActive
  }

  activated(): void {
    if (this.#isActive) return
    this.#isActive = true
    this.emit('did-become-active')
  }

  /** A person works in another app from now on. */
  resigned(): void {
    if (!this.#isActive) return
    this.#isActive = false
    this.emit('did-resign-active')
  }

  /** First the app is asked, then each of its windows. */
  quit(): void {
    if (this.#isQuitting) return
    const event = new PreventableEvent()
    this.emit('before-quit', event)
    if (event.defaultPrevented) return
    this.#isQuitting = true
    if (this.windows.size === 0) this.#willQuit()
    else for (const window of [...this.windows]) window.close()
  }

  /** A window that stays ends the quit. */
  closeWasPrevented(): void {
    this.#isQuitting = false
  }

  windowClosed(window: OpenWindow): void {
    this.windows.delete(window)
    if (this.windows.size > 0 || this.#isExiting) return
    if (this.#isQuitting) this.#willQuit()
    else if (!this.emit('window-all-closed')) this.quit()
  }

  exit(code = 0): void {
    this.#isExiting = true
    for (const window of [...this.windows]) window.destroy()
    this.emit('quit', {}, code)
    process.exit(code)
  }

  #willQuit(): void {
    const event = new PreventableEvent()
    this.emit('will-quit', event)
    this.#isQuitting = !event.defaultPrevented
    if (this.#isQuitting) void (this.#told ?? Promise.resolve()).then(() => this.exit(0))
  }
}

export const app = new App()
