import { EventEmitter } from 'node:events'
import { app } from './app.ts'

interface Options {
  readonly id?: string
  readonly groupId?: string
  readonly title?: string
  readonly body?: string
  readonly silent?: boolean
  readonly actions?: readonly { readonly type: 'button'; readonly text?: string }[]
}

const known = new Set(['id', 'groupId', 'title', 'body', 'silent', 'actions'])

/** What is in the notification centre, the newest last; one of the same id takes the place of the one before. */
export const notifications = new Map<string, Notification>()

export class Notification extends EventEmitter {
  readonly options: Options

  constructor(options: Options) {
    super()
    if (!app.isReady()) throw new Error('Cannot create Notification before app is ready')
    for (const name of Object.keys(options)) if (!known.has(name)) throw new Error(`Unknown option ${name}`)
    this.options = options
  }

  static isSupported(): boolean {
    return true
  }

  show(): void {
    const id = this.options.id ?? String(notifications.size)
    notifications.delete(id)
    notifications.set(id, this)
    this.emit('show', {})
  }

  get shown() {
    const { title, body, actions = [] } = this.options
    return { title, body, actions: actions.map(({ text }) => text) }
  }
}

/** As a person does: on its button, or beside it. */
export function clickNotification(title: string, button?: string): void {
  const found = [...notifications.values()].find(({ options }) => options.title?.startsWith(title))
  if (!found) throw new Error(`There is no notification ${title}: ${JSON.stringify([...notifications.keys()])}`)
  if (button === undefined) {
    found.emit('click', {})
    return
  }
  const actionIndex = found.shown.actions.indexOf(button)
  if (actionIndex === -1) throw new Error(`There is no button ${button}: ${JSON.stringify(found.shown)}`)
  found.emit('action', { actionIndex, selectionIndex: -1 }, actionIndex)
}
