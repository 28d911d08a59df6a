import { contextBridge, ipcRenderer } from 'electron'
import type { Bridge, BridgeReply } from '../../contract/app-bridge.ts'
import type { LinkFailure } from '../../contract/client.ts'
import type { Unsubscribe } from '../../contract/client.ts'
import { channels, type ListenRequest, type Push } from '../ipc-channels.ts'

/** Values pushed under an id belong to the request with that id. */
interface PageListener {
  readonly next: (item: never) => void
  readonly end: (failure: LinkFailure) => void
}

const listeners = new Map<string, PageListener>()
let lastId = 0

ipcRenderer.on(channels.push, (_event, push: Push) => {
  const listener = listeners.get(push.id)
  if ('item' in push) listener?.next(push.item as never)
  else {
    listeners.delete(push.id)
    listener?.end(push.failure)
  }
})

// What main answers was checked by main.
const ask = <T>(channel: string, ...content: unknown[]) =>
  ipcRenderer.invoke(channel, ...content) as Promise<BridgeReply<T>>

function listen(request: ListenRequest['request'], { next, end }: PageListener): Unsubscribe {
  lastId += 1
  const id = String(lastId)
  listeners.set(id, { next, end })
  const begun: ListenRequest = { id, request }
  void ask(channels.listen, begun).then((reply) => {
    if (!reply.ok && listeners.delete(id)) end(reply.failure)
  })
  return () => {
    if (listeners.delete(id)) void ask(channels.leave, { id })
  }
}

const bridge: Bridge = {
  follow: (next, end, looker) => listen({ name: 'snapshot', ...(looker && { looker }) }, { next, end }),
  snapshot: () => ask(channels.snapshot),
  command: (command, requestId) => ask(channels.command, { requestId, command }),
  query: (query, id) => ask(channels.query, { id, query }),
  withdraw: (id) => ask(channels.withdraw, { id }),
  stream: (request, next, end) => listen(request, { next, end }),
  appState: () => ask(channels.appState),
  setHubToken: (token) => ask(channels.setHubToken, token),
  removeHubToken: () => ask(channels.removeHubToken),
  setLoginItem: (isOn) => ask(channels.setLoginItem, isOn),
  prefer: (changes) => ask(channels.prefer, changes),
  chooseFile: (what) => ask(channels.chooseFile, what),
  openPane: (pane) => ask(channels.openPane, pane),
  changePowerRule: (change) => ask(channels.changePowerRule, change),
  update: (action) => ask(channels.update, action),
  setCommandLink: (isWanted) => ask(channels.setCommandLink, isWanted),
  moveToApplications: () => ask(channels.moveToApplications),
  traces: () => ask(channels.traces),
  uninstall: (kinds) => ask(channels.uninstall, kinds),
  revealLog: (log) => ask(channels.revealLog, log),
  keep: (isKept) => ask(channels.keep, isKept),
  hide: () => ask(channels.hide),
  tearOff: (at) => ask(channels.tearOff, at),
}

contextBridge.exposeInMainWorld('metalbar', bridge)

interface KeyPress {
  readonly key: string
  readonly defaultPrevented: boolean
}

/** The page's `addEventListener`; the DOM types are not available to the rest of the app's process. */
declare function addEventListener(type: 'keydown', listener: (press: KeyPress) => void): void
declare function addEventListener(type: 'focus' | 'blur', listener: () => void): void

// After the page's own listeners: a question or a menu that is open takes the key for itself.
addEventListener('keydown', ({ key, defaultPrevented }) => {
  if (key === 'Escape' && !defaultPrevented) void ask(channels.escape)
})

// A panel says this of itself to nobody but its page.
addEventListener('focus', () => void ask(channels.focus, true))
addEventListener('blur', () => void ask(channels.focus, false))
