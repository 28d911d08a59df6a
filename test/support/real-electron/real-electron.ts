import { existsSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { _electron, type ElectronApplication, type Page } from 'playwright'
import { eventually } from '../eventually.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const root = path.join(import.meta.dirname, '../../..')
const electronFolder = path.join(root, 'node_modules/electron')

/** By `ELECTRON_PATH`, or where npm has put it; importing the package would have it downloaded. */
export function findElectron(): { readonly path: string } | { readonly missing: string } {
  const named = process.env['ELECTRON_PATH']
  if (named !== undefined && named !== '') {
    return existsSync(named) ? { path: named } : { missing: `ELECTRON_PATH names ${named}, which is not there` }
  }
  const pathFile = path.join(electronFolder, 'path.txt')
  const installed = existsSync(pathFile) ? path.join(electronFolder, 'dist', readFileSync(pathFile, 'utf8')) : ''
  if (existsSync(installed)) return { path: installed }
  return { missing: 'there is no Electron: `npx install-electron` downloads it, or ELECTRON_PATH names one' }
}

/** What `hook.cjs` keeps. */
interface Kept {
  readonly tray: { emit(event: string, ...args: unknown[]): void; getBounds(): object } | undefined
  readonly menu: { readonly items: readonly { readonly label: string; click(): void }[] } | undefined
}
type Hooked = typeof globalThis & { readonly metalbarTest: Kept }

/** The built app on Electron itself, with a home folder of its own. */
export class RealElectron implements AsyncDisposable {
  readonly app: ElectronApplication
  readonly #folder: AsyncDisposable

  private constructor(app: ElectronApplication, folder: AsyncDisposable) {
    this.app = app
    this.#folder = folder
  }

  static async start(executablePath: string): Promise<RealElectron> {
    const folder = await temporaryFolder()
    const home = path.join(folder.dir, 'home')
    await mkdir(home)
    const app = await _electron.launch({
      executablePath,
      args: ['-r', path.join(import.meta.dirname, 'hook.cjs'), root],
      env: {
        PATH: process.env['PATH'] ?? '',
        DISPLAY: process.env['DISPLAY'] ?? '',
        HOME: home,
        // By which macOS finds it.
        CFFIXED_USER_HOME: home,
        METALBAR_TEST_HOME: folder.dir,
        XDG_STATE_HOME: folder.dir,
        KUBECONFIG: path.join(folder.dir, 'kubeconfig'),
      },
    })
    const started = new RealElectron(app, folder)
    await eventually(() => app.evaluate(() => (globalThis as Hooked).metalbarTest.tray !== undefined), {
      what: 'the icon',
    })
    return started
  }

  /** Presses the button on the icon and lets it go. */
  clickIcon(): Promise<void> {
    return this.app.evaluate(() => {
      const { tray } = (globalThis as Hooked).metalbarTest
      tray?.emit('mouse-down', {}, { x: 0, y: 0 })
      tray?.emit('click', { ctrlKey: false }, tray.getBounds())
    })
  }

  openMenu(): Promise<void> {
    return this.app.evaluate(() => (globalThis as Hooked).metalbarTest.tray?.emit('right-click', {}, {}))
  }

  /** What stands in the menu that was opened last. */
  labels(): Promise<string[]> {
    return this.app.evaluate(() => (globalThis as Hooked).metalbarTest.menu?.items.map(({ label }) => label) ?? [])
  }

  choose(label: string): Promise<void> {
    return this.app.evaluate((_, chosen) => {
      const { menu } = (globalThis as Hooked).metalbarTest
      menu?.items.find((item) => item.label === chosen)?.click()
    }, label)
  }

  page(): Promise<Page> {
    return eventually(() => this.app.windows()[0], { what: 'the window' })
  }

  windows(): Promise<{ readonly isVisible: boolean; readonly x: number; readonly y: number }[]> {
    return this.app.evaluate(({ BrowserWindow }) =>
      BrowserWindow.getAllWindows().map((window) => {
        const { x, y } = window.getBounds()
        return { isVisible: window.isVisible(), x, y }
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.app.close().catch(() => undefined)
    await this.#folder[Symbol.asyncDispose]()
  }
}
