/** Of Electron's MenuItemConstructorOptions, what the app uses. */
interface ItemTemplate {
  readonly label?: string
  readonly type?: string
  readonly role?: string
  readonly enabled?: boolean
  readonly accelerator?: string
  readonly submenu?: readonly ItemTemplate[]
  readonly click?: () => void
}

export class Menu {
  readonly template: readonly ItemTemplate[]

  private constructor(template: readonly ItemTemplate[]) {
    this.template = template
  }

  static buildFromTemplate(template: readonly ItemTemplate[]): Menu {
    return new Menu(template)
  }

  static setApplicationMenu(): void {
    // The stand-in shows no menu bar.
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
      chosen = entries.find((entry) => entry.label?.startsWith(label) === true)
      if (chosen?.enabled === false) chosen = undefined
      entries = chosen?.submenu ?? []
    }
    if (!chosen?.click)
      throw new Error(`There is no entry ${labels.join(' ▸ ')} that can be chosen: ${JSON.stringify(this.shown)}`)
    chosen.click()
  }
}

export type ShownEntry = string | { readonly label: string; readonly entries: readonly ShownEntry[] }

const shownOf = (template: readonly ItemTemplate[]): ShownEntry[] =>
  template.map(({ type, label = '', enabled, submenu }) => {
    if (type === 'separator') return '-'
    if (submenu) return { label, entries: shownOf(submenu) }
    return enabled === false ? `(${label})` : label
  })
