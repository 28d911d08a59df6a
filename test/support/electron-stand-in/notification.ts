import { app } from './app.ts'
import { ElectronEmitter, refuseUnknown } from './electron-types.ts'

interface Options {
  readonly id?: string
  readonly groupId?: string
  readonly title?: string
  readonly body?: string
  readonly silent?: boolean
  readonly actions?: readonly { readonly type: 'button'; readonly text?: string }[]
}

/** What the notification centre has of one, and the app's object, which nothing but the app keeps: a click on one that is gone is lost. */
interface Kept {
  readonly shown: {
    readonly title: string | undefined
    readonly body: string | undefined
    readonly actions: readonly string[]
  }
  readonly object: WeakRef<Notification>
}

/** The newest last; one of the same id takes the place of the one before. */
export const notifications = new Map<string, Kept>()

export class Notification extends ElectronEmitter {
  readonly options: Options

  constructor(options: Options) {
    super('Notification')
    if (!app.isReady()) throw new Error('Cannot create Notification before app is ready')
    refuseUnknown('NotificationConstructorOptions', options)
    this.options = options
  }

  static isSupported(): boolean {
    return true
  }

  show(): void {
    const id = this.options.id ?? String(notifications.size)
    notifications.delete(id)
    const { title, body, actions = [] } = this.options
    const shown = { title, body, actions: actions.map(({ text = '' }) => text) }
    notifications.set(id, { shown, object: new WeakRef(this) })
    this.emit('show', {})
  }
}

/** As a person does: on its button, or beside it. */
export function clickNotification(title: string, button?: string): void {
  const found = [...notifications.values()].find(({ shown }) => shown.title?.startsWith(title) === true)
  if (!found) throw new Error(`There is no notification ${title}: ${JSON.stringify([...notifications.keys()])}`)
  if (button === undefined) {
    found.object.deref()?.emit('click', {})
    return
  }
  const actionIndex = found.shown.actions.indexOf(button)
  if (actionIndex === -1) throw new Error(`There is no button ${button}: ${JSON.stringify(found.shown)}`)
  found.object.deref()?.emit('action', { actionIndex, selectionIndex: -1 }, actionIndex)
}
