import { app } from './app.ts'
import { choicesOf, ElectronEmitter, refuseUnknown } from './electron-types.ts'
import { acceleratorKeys, sameKeys } from './accelerator.ts'
import { carryOutRole, roleAccelerators } from './menu-roles.ts'

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

/** Of Electron's MenuItem, what it makes of a template. */
interface MenuItem {
  readonly label: string
  readonly type: string
  readonly role: string | undefined
  readonly enabled: boolean
  readonly accelerator: string | undefined
  readonly checked: boolean
  readonly submenu: { readonly items: readonly MenuItem[] } | undefined
  click(): void
}

/** What stands in the bar at the top of the screen while a window of the app has the focus. */
let applicationMenu: Menu | undefined

export class Menu extends ElectronEmitter {
  readonly template: readonly ItemTemplate[]

  private constructor(template: readonly ItemTemplate[]) {
    super('Menu')
    this.template = template
  }

  static buildFromTemplate(template: readonly ItemTemplate[]): Menu {
    check(template)
    return new Menu(template)
  }

  static setApplicationMenu(menu: Menu): void {
    applicationMenu = menu
  }

  static getApplicationMenu(): Menu | null {
    return applicationMenu ?? null
  }

  /** The last one that came up where the mouse is. */
  static popped: Menu | undefined

  popup(): void {
    Menu.popped = this
  }

  get items(): readonly MenuItem[] {
    return itemsOf(this.template)
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
      const enabled = entries.filter((entry) => entry.enabled !== false)
      const isExact = (entry: ItemTemplate) => seen(entry.label) === label
      chosen = enabled.find(isExact) ?? enabled.find((entry) => seen(entry.label).startsWith(label))
      entries = chosen?.submenu ?? []
    }
    if (!chosen?.click)
      throw new Error(`There is no entry ${labels.join(' ▸ ')} that can be chosen: ${JSON.stringify(this.shown)}`)
    this.emit('menu-will-close')
    chosen.click()
  }

  /** As a person does on the keyboard. Answers whether an entry has these keys. */
  press(accelerator: string): boolean {
    const found = allOf(this.template).find(({ role, accelerator: own = roleAccelerators[role ?? ''] }) =>
      own === undefined ? false : sameKeys(own, accelerator),
    )
    if (found?.role !== undefined) carryOutRole(app, found.role)
    else found?.click?.()
    return found !== undefined
  }
}

/** What a real one passes over in silence, or throws. */
function check(template: readonly ItemTemplate[]): void {
  for (const item of template) {
    refuseUnknown('MenuItemConstructorOptions', item)
    const { label, role, type, accelerator, submenu } = item
    if (label === undefined && role === undefined && type !== 'separator') {
      throw new TypeError('Invalid template for MenuItem: must have at least one of label, role or type')
    }
    if (role !== undefined && !choicesOf('MenuItemConstructorOptions', 'role').has(role)) {
      throw new TypeError(`There is no role ${role}`)
    }
    if (type !== undefined && !choicesOf('MenuItemConstructorOptions', 'type').has(type)) {
      throw new Error(`Unknown menu item type: ${type}`)
    }
    if (accelerator !== undefined) acceleratorKeys(accelerator)
    if (submenu) check(submenu)
  }
}

const itemsOf = (template: readonly ItemTemplate[]): MenuItem[] =>
  template.map(
    ({ label = '', type = 'normal', role, enabled = true, accelerator, checked = false, submenu, click }) => ({
      ...{ label, type, role, enabled, accelerator, checked },
      submenu: submenu && { items: itemsOf(submenu) },
      click: () => click?.(),
    }),
  )

const allOf = (template: readonly ItemTemplate[]): ItemTemplate[] =>
  template.flatMap((item) => [item, ...allOf(item.submenu ?? [])])

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
