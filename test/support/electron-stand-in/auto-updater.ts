import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { app } from './app.ts'
import { infoOf, ownBundle, signerOf } from './bundle.ts'
import { ElectronEmitter, refuseUnknown } from './electron-types.ts'

interface Feed {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
}

class SquirrelError extends Error {
  readonly code: number
  readonly domain: string

  constructor(message: string, domain: string, code: number) {
    super(message)
    this.domain = domain
    this.code = code
  }
}

/**
 * Squirrel.Mac as Electron drives it: fetches the archive that the feed names, takes only an app that is signed as this one, and has ShipIt,
 * a process of its own, put it in this one's place when this one has ended.
 */
class AutoUpdater extends ElectronEmitter {
  #feed: Feed | undefined
  #isStaged = false

  constructor() {
    super('AutoUpdater')
  }

  setFeedURL(feed: Feed): void {
    refuseUnknown('FeedURLOptions', feed)
    if (typeof (feed as { url?: unknown }).url !== 'string') {
      throw new Error("Expected options object to contain a 'url' string property in setFeedUrl call")
    }
    this.#feed = undefined
    if (signerOf(ownBundle) === undefined) {
      this.#fail(new SquirrelError('Could not get code signature for running application', '', 0))
      return
    }
    this.#feed = feed
  }

  getFeedURL(): string {
    return this.#feed?.url ?? ''
  }

  /** Without a feed it does nothing at all. */
  checkForUpdates(): void {
    if (!this.#feed) return
    this.emit('checking-for-update')
    this.#isStaged = false
    this.#fetch(this.#feed).then(
      (version) => {
        if (version === undefined) this.emit('update-not-available')
        else this.emit('update-downloaded', {}, '', version, new Date(), '')
      },
      (error: unknown) => this.#fail(error as Error),
    )
  }

  /** The windows are closed before the app is asked to quit. */
  quitAndInstall(): void {
    this.emit('before-quit-for-update')
    if (app.windows.size === 0) this.#relaunchToInstall()
    else {
      for (const window of [...app.windows]) window.close()
      const whenClosed = setInterval(() => {
        if (app.windows.size > 0) return
        clearInterval(whenClosed)
        this.#relaunchToInstall()
      }, 5)
    }
  }

  #relaunchToInstall(): void {
    if (!this.#isStaged) this.#fail(new Error("No update available, can't quit and install"))
    else if (shipItFails()) this.#fail(new SquirrelError('ShipIt is gone', 'SQRLUpdaterErrorDomain', 4))
    else app.quit()
  }

  #fail(error: Error): void {
    this.emit('error', error, error.message)
  }

  async #fetch({ url, headers = {} }: Feed): Promise<string | undefined> {
    const answer = await fetch(url, { headers })
    if (answer.status === 204) return undefined
    if (answer.status !== 200) throw new SquirrelError('Update check failed', 'SQRLUpdaterErrorDomain', 5)
    const { url: archive } = (await answer.json()) as { readonly url: string }
    this.emit('update-available')
    const content = await fetch(archive, { headers })
    if (content.status !== 200) throw new SquirrelError('Update download failed', 'SQRLUpdaterErrorDomain', 6)
    const folder = await mkdtemp(path.join(app.getPath('home'), 'standin-update.'))
    const file = path.join(folder, 'update.zip')
    await writeFile(file, Buffer.from(await content.arrayBuffer()))
    try {
      await promisify(execFile)('unzip', ['-q', file, '-d', folder])
    } catch {
      throw new SquirrelError('Could not extract the archive', 'SQRLZipArchiverErrorDomain', 1)
    }
    const name = (await readdir(folder)).find((entry) => entry.endsWith('.app'))
    if (name === undefined) throw new SquirrelError('Could not locate update bundle', 'SQRLUpdaterErrorDomain', 1)
    const bundle = path.join(folder, name)
    this.#verify(bundle)
    if (!shipItFails()) shipIt(bundle)
    this.#isStaged = true
    return infoOf(bundle).CFBundleShortVersionString
  }

  #verify(bundle: string): void {
    let why = 'code failed to satisfy specified code requirement(s)'
    try {
      if (signerOf(bundle) === signerOf(ownBundle)) return
    } catch (error) {
      why = (error as Error).message
    }
    throw new SquirrelError(
      `Code signature at URL file://${bundle}/ did not pass validation: ${why}`,
      'SQRLCodeSignatureErrorDomain',
      -1,
    )
  }
}

const shipItFails = () => process.env['ELECTRON_STAND_IN_SHIP_IT'] === 'fails'

/** Lives on by itself until this process is gone. */
function shipIt(staged: string): void {
  const script = path.join(import.meta.dirname, 'ship-it.ts')
  spawn(process.execPath, [script, String(process.pid), staged, ownBundle], { detached: true, stdio: 'ignore' }).unref()
}

export const autoUpdater = new AutoUpdater()
