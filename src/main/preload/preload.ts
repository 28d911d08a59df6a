import { contextBridge, ipcRenderer } from 'electron'
import type { Bridge, BridgeReply, ListenInput, Push, Verb } from '../../contract/app-bridge.ts'
import type { LinkFailure } from '../../contract/client.ts'
import { channelOf, pushChannel } from '../ipc-channels.ts'

/** Values pushed under an id belong to the request with that id. */
interface PageListener {
  readonly next: (item: never) => void
  readonly end: (failure: LinkFailure) => void
}

const listeners = new Map<string, PageListener>()
let lastId = 0

ipcRenderer.on(pushChannel, (_event, push: Push) => {
  const listener = listeners.get(push.id)
  if ('item' in push) listener?.next(push.item as never)
  else {
    listeners.delete(push.id)
    listener?.end(push.failure)
  }
})

// What main answers was checked by main, as is what the page says.
const ask = (verb: Verb, ...content: readonly unknown[]) =>
  ipcRenderer.invoke(channelOf(verb), ...content) as Promise<BridgeReply<never>>

const bridge: Bridge = {
  ask,
  listen(request: ListenInput, next, end) {
    lastId += 1
    const id = String(lastId)
    listeners.set(id, { next, end })
    void ask('listen', { id, request }).then((reply) => {
      if (!reply.ok && listeners.delete(id)) end(reply.failure)
    })
    return () => {
      if (listeners.delete(id)) void ask('leave', { id })
    }
  },
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
  if (key === 'Escape' && !defaultPrevented) void ask('escape')
})

// A panel says this of itself to nobody but its page.
addEventListener('focus', () => void ask('focus', true))
addEventListener('blur', () => void ask('focus', false))
