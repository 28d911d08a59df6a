import { EventEmitter } from 'node:events'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import path from 'node:path'
import { isInstalled, loginItem } from './login-item.ts'

/** An event that a listener may prevent. */
export class PreventableEvent {
  defaultPrevented = false

  preventDefault(): void {
    this.defaultPrevented = true
  }
}

class App extends EventEmitter {
  readonly isPackaged = isInstalled
  readonly getLoginItemSettings = loginItem.get
  readonly setLoginItemSettings = loginItem.set
  isSandboxed = false
  /** There on macOS alone. */
  readonly dock: undefined
  readonly #paths = new Map([
    ['home', homedir()],
    ['temp', tmpdir()],
    ['userData', path.join(homedir(), '.config/metalbar')],
  ])
  readonly #ready = Promise.withResolvers<undefined>()
  #isReady = false
  #told: Promise<void> | undefined

  constructor() {
    super()
    // After the program's own module.
    setTimeout(() => {
      this.#isReady = true
      this.emit('ready')
      this.#ready.resolve(undefined)
    })
    // As Electron does on both systems.
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => this.quit())
    // A real one lives without any timer or socket.
    setInterval(() => undefined, 60_000)
  }

  setAsDefaultProtocolClient(scheme: string): boolean {
    return /^[a-z]+$/.test(scheme)
  }

  getName(): string {
    return 'metalbar'
  }

  getVersion(): string {
    return '0.0.0'
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
    if (!statSync(folder).isDirectory()) throw new Error('Path must be a folder')
    this.#paths.set(name, folder)
  }

  whenReady(): Promise<undefined> {
    return this.#ready.promise
  }

  isReady(): boolean {
    return this.#isReady
  }

  enableSandbox(): void {
    if (this.#isReady) throw new Error('app.enableSandbox() can only be called before app is ready')
    this.isSandboxed = true
  }

  /** By the folder of the app, as Chromium does; the first is told of the second. */
  requestSingleInstanceLock(): boolean {
    const lock = path.join(this.getPath('userData'), 'SingletonLock')
    const socket = path.join(this.getPath('userData'), 'SingletonSocket')
    try {
      process.kill(Number(readFileSync(lock, 'utf8')), 0)
      this.#told = new Promise((resolve) =>
        connect(socket)
          .on('close', resolve)
          .on('error', () => resolve()),
      )
      return false
    } catch {
      writeFileSync(lock, String(process.pid))
      rmSync(socket, { force: true })
      createServer((second) => second.end(() => this.emit('second-instance'))).listen(socket)
      process.once('exit', () => rmSync(lock))
      return true
    }
  }

  /** There on macOS alone. */
  setActivationPolicy(): void {
    throw new Error('app.setActivationPolicy is not a function')
  }

  quit(): void {
    const event = new PreventableEvent()
    this.emit('before-quit', event)
    if (event.defaultPrevented) return
    this.emit('will-quit', new PreventableEvent())
    void (this.#told ?? Promise.resolve()).then(() => this.exit(0))
  }

  exit(code = 0): void {
    this.emit('quit', {}, code)
    process.exit(code)
  }
}

export const app = new App()
