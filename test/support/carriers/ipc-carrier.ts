import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { createContext, runInContext } from 'node:vm'
import type { AppVerb, Bridge, VerbWork } from '../../../src/contract/app-bridge.ts'
import { channel } from '../../../src/main/ipc-channels.ts'
import { serveIpc } from '../../../src/main/window/ipc.ts'
import { lazyLink } from '../../../src/main/agent/lazy-link.ts'
import { linkOverBridge } from '../../../src/renderer/link/connection.ts'
import { connectToAgent } from '../../../src/serve/client/agent-client.ts'
import { serveOnSocket } from '../../../src/serve/socket-server.ts'
import { app } from '../electron-stand-in/app.ts'
import { BrowserWindow } from '../electron-stand-in/browser-window.ts'
import { invoke, ipcMain } from '../electron-stand-in/ipc-main.ts'
import { pageScript, preloadScript, type FromApp, type ToApp } from '../electron-stand-in/preload-script.ts'
import { silentLog } from '../silent-log.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import type { Carrier } from './carrier.ts'

/** As it is shipped. */
const preload = path.join(import.meta.dirname, '../../../out/main/preload.cjs')

/**
 * The app's window that shows the agent of its state folder, which is another process: page, preload script, main process, socket. The test
 * that uses it must have put the stand-in in the place of Electron.
 */
export const ipcCarrier: Carrier = {
  name: 'Electron IPC',
  trust: 'shell',
  async start(door) {
    const { dir, ...folder } = await temporaryFolder()
    const place = { socketPath: path.join(dir, 'agent.sock'), stateDir: dir }
    const errors: unknown[] = []
    const result = await serveOnSocket({ ...place, version: '1.2.3', door, onError: (error) => errors.push(error) })
    if (!result.ok) throw new Error(result.message)
    const { server } = result
    const client = connectToAgent(place)
    serveIpc({
      link: lazyLink(() => client),
      log: { ...silentLog, error: (_, fields) => errors.push(fields) },
      app: {} as VerbWork<AppVerb>,
    })
    const window = await openWindow()
    return {
      link: linkOverBridge(window.bridge),
      errors,
      end: () => server.close(),
      async [Symbol.asyncDispose]() {
        window.close()
        await (await client).close()
        await server.close()
        await folder[Symbol.asyncDispose]()
      },
    }
  },
}

/** A window whose page is JavaScript worlds of their own, as a page's are, with nothing in them but what the preload script puts there. */
async function openWindow(): Promise<{ readonly bridge: Bridge; readonly close: () => void }> {
  if (!app.isReady()) {
    app.becomeReady()
    app.on('window-all-closed', () => undefined)
  }
  const window = new BrowserWindow({ width: 400, height: 620, webPreferences: { preload } })
  const { webContents } = window
  webContents.navigated('app://metalbar/index.html')
  const events = new EventTarget()
  const tell = (message: FromApp) => ofPreload.electronReceive?.(JSON.stringify(message))
  const ofPage = worldWith(events)
  const ofPreload = worldWith(events)
  ofPreload.electronSend = (text) => {
    const { id, channel, content } = JSON.parse(text) as ToApp
    void invoke({ sender: webContents, senderFrame: webContents.mainFrame }, channel, content).then(
      (value) => tell({ id, value }),
      (error: unknown) => tell({ id, error: String(error) }),
    )
  }
  runInContext(pageScript(), createContext(ofPage))
  runInContext(preloadScript(await readFile(preload, 'utf8')), createContext(ofPreload))
  const { metalbar } = ofPage
  if (!metalbar) throw new Error('The preload script put no bridge into the page.')
  webContents.page = Promise.resolve({
    goto: () => Promise.resolve(),
    receive: (channel, content) => {
      tell({ channel, content })
      return Promise.resolve()
    },
    focused: () => Promise.resolve(),
    close: () => Promise.resolve(),
  })
  window.show()
  return {
    bridge: metalbar,
    close: () => {
      window.destroy()
      ipcMain.removeHandler(channel)
    },
  }
}

interface World {
  /** That of the test, so that the bridge knows its promises. */
  readonly Promise: PromiseConstructor
  readonly structuredClone: typeof structuredClone
  readonly Event: typeof Event
  readonly CustomEvent: typeof CustomEvent
  readonly addEventListener: EventTarget['addEventListener']
  readonly dispatchEvent: EventTarget['dispatchEvent']
  electronSend?: (text: string) => void
  /** Put there by the stand-in and by the preload script. */
  electronReceive?: (text: string) => void
  metalbar?: Bridge
}

const worldWith = (events: EventTarget): World => ({
  Promise,
  structuredClone,
  Event,
  CustomEvent,
  addEventListener: (...args: Parameters<EventTarget['addEventListener']>) => events.addEventListener(...args),
  dispatchEvent: (event) => events.dispatchEvent(event),
})
