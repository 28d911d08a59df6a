import type { WindowView } from '../../../../src/contract/app-bridge.ts'
import type { AppState } from '../../../../src/contract/app-state.ts'
import type { SettingSection } from '../../../../src/contract/settings-table.ts'
import type { FakeAgent } from '../fake-agent.ts'

/** A state of the window worth looking at. */
export interface Scene {
  readonly agent: () => FakeAgent
  readonly app?: Partial<AppState>
  /** Turned to first. */
  readonly view?: WindowView
  /** Page of the settings that is turned to then. */
  readonly page?: SettingSection
  /** Name of the service whose detail is opened. */
  readonly open?: string
  /** Looked up on the page where a model is added; empty = only turned to that page. */
  readonly add?: string
  /** Then written, by the label of the field. */
  readonly fill?: Readonly<Record<string, string>>
  /** Then chosen among several, in this order. */
  readonly choose?: readonly string[]
  /** Then unfolded, by what stands on them. */
  readonly unfold?: readonly string[]
  /** Settings whose rows are opened then, by their titles. */
  readonly tell?: readonly string[]
  /** Then scrolled to, by the name of the group. */
  readonly at?: string
  /** Then pressed, in this order. */
  readonly press?: readonly string[]
  /** Done to the agent at the end. */
  readonly then?: (agent: FakeAgent) => void
  readonly width?: number
  readonly height?: number
  /** How much larger than usual a person reads. */
  readonly textScale?: number
}

/** With the words by which a person knows it. */
export interface StatedScene extends Scene {
  readonly says: readonly string[]
}
