import { EventEmitter } from 'node:events'

/** Of Electron's MenuItemConstructorOptions, what the app uses. */
interface ItemTemplate {
  readonly label?: string
  readonly type?: string
  readonly role?: string
  readonly enabled?: boolean
  readonly accelerator?: string
  readonly checked?: boolean
  readonly submenu?: readonly ItemTemplate[]
  readonly click?: () => void
}

/** What stands in the bar at the top of the screen while a window of the app has the focus. */
let applicationMenu: Menu | undefined

export class Menu extends EventEmitter {
  readonly template: readonly ItemTemplate[]

  private constructor(template: readonly ItemTemplate[]) {
    super()
    this.template = template
  }

  static buildFromTemplate(template: readonly ItemTemplate[]): Menu {
    return new Menu(template)
  }

  static setApplicationMenu(menu: Menu): void {
    applicationMenu = menu
  }

  static getApplicationMenu(): Menu | null {
    return applicationMenu ?? null
  }

  /** What a person reads: `-` is a line, and entries that cannot be chosen are in brackets. */
  get shown(): ShownEntry[] {
    return shownOf(this.template)
  }

  /** As a person does who opens the entries one after the other. */
  choose(labels: readonly string[]): void {
    let entries = this.template
    let chosen: ItemTemplate | undefined
    for (const label of labels) {
      chosen = entries.find((entry) => entry.enabled !== false && seen(entry.label).startsWith(label))
      entries = chosen?.submenu ?? []
    }
    if (!chosen?.click)
      throw new Error(`There is no entry ${labels.join(' ▸ ')} that can be chosen: ${JSON.stringify(this.shown)}`)
    this.emit('menu-will-close')
    chosen.click()
  }
}

/** As macOS shows it: one ampersand marks a key and is not seen, two are one. */
const seen = (label = ''): string => label.replaceAll(/&(.?)/g, (_, next: string) => next)

export type ShownEntry = string | { readonly label: string; readonly entries: readonly ShownEntry[] }

const shownOf = (template: readonly ItemTemplate[]): ShownEntry[] =>
  template.map(({ type, label, enabled, checked, submenu }) => {
    if (type === 'separator') return '-'
    const text = `${checked === true ? '✓ ' : ''}${seen(label)}`
    if (submenu) return { label: text, entries: shownOf(submenu) }
    return enabled === false ? `(${text})` : text
  })
