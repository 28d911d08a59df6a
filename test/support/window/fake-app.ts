import type { AppVerb, BridgeReply, UpdateAction } from '../../../src/contract/app-bridge.ts'
import type { AppPreferences, AppState, UpdateState } from '../../../src/contract/app-state.ts'
import type { TraceList } from '../../../src/contract/uninstall.ts'

const sampleTraces: TraceList = {
  serving: ['default/phi-4-mini'],
  traces: [
    {
      kind: 'cluster',
      what: 'What this machine published in the cluster',
      isChosen: true,
      places: ['EndpointSlice', 'Endpoints', 'Service'].map((kind) => ({ path: `default/phi-4-mini (${kind})` })),
      stays: [],
    },
    {
      kind: 'models',
      what: 'Downloaded models',
      isChosen: false,
      places: [{ path: '/Users/anna/Library/Application Support/Metalbar/models/phi-4-mini', bytes: 2_490_000_000 }],
      stays: ['/Users/anna/models/other.gguf was not downloaded by Metalbar, so it stays.'],
    },
    {
      kind: 'keychain',
      what: 'The key of the token in the keychain',
      isChosen: true,
      places: [],
      stays: [],
      problem: 'The keychain does not answer: it is locked.',
    },
    {
      kind: 'state',
      what: 'State: identity, history, holds',
      isChosen: true,
      places: [{ path: '/Users/anna/Library/Application Support/Metalbar/node.json', bytes: 72 }],
      stays: [],
    },
  ],
}

/** What the app does for its window, without an app: it remembers what it was asked. */
export class FakeApp {
  state: { -readonly [K in keyof AppState]: AppState[K] } = {
    hubToken: 'none',
    loginItem: 'not-registered',
    preferences: {
      showTitle: false,
      onQuit: 'ask',
      notifications: true,
      looksForUpdates: false,
    },
    isHere: true,
    isTornOff: false,
    version: '1.2.2',
    update: { step: 'unknown' },
    commandLink: { state: 'absent' },
  }
  traces: TraceList = sampleTraces
  /** What a person chooses in a dialog. */
  chosenFile: string | undefined
  /** Why the app does not do what is asked next. */
  refusal: string | undefined
  readonly asked: { readonly verb: AppVerb; readonly content: unknown }[] = []
  readonly revealed: unknown[] = []
  readonly kept: boolean[] = []

  answer(verb: AppVerb, content: unknown): BridgeReply<unknown> {
    this.asked.push({ verb, content })
    const message = this.refusal
    this.refusal = undefined
    if (message !== undefined) return { ok: false, failure: { code: 'refused', message } }
    return { ok: true, value: this.#does(verb, content) }
  }

  #does(verb: AppVerb, content: unknown): unknown {
    switch (verb) {
      case 'revealLog':
        this.revealed.push(content)
        return undefined
      case 'keep':
        this.kept.push(content === true)
        return undefined
      case 'chooseFile':
        return this.chosenFile
      case 'changePowerRule':
        return { outcome: 'done', message: `Terminal did the ${String(content)}.` }
      case 'traces':
        return this.traces
      case 'appState':
        return this.state
      default:
        this.#change(this.#changes(verb, content))
        return undefined
    }
  }

  #change(changes: Partial<AppState>): void {
    this.state = { ...this.state, ...changes }
  }

  #updated(action: UpdateAction): UpdateState {
    const version = '1.2.3'
    switch (action) {
      case 'look':
      case 'cancel':
        return { step: 'available', version, bytes: 98_000_000 }
      case 'download':
        return { step: 'downloading', version, doneBytes: 41e6, totalBytes: 98e6, bytesPerSecond: 8.2e6 }
      case 'install':
        return { step: 'installing', version }
      case 'dismiss':
        delete this.state.lastUpdate
        return { step: 'unknown' }
    }
  }

  #changes(verb: AppVerb, content: unknown): Partial<AppState> {
    const { preferences } = this.state
    if (verb === 'setHubToken') return { hubToken: 'kept' }
    if (verb === 'removeHubToken') return { hubToken: 'none' }
    if (verb === 'setLoginItem') return { loginItem: content === true ? 'enabled' : 'not-registered' }
    if (verb === 'prefer' && preferences) {
      return { preferences: { ...preferences, ...(content as Partial<AppPreferences>) } }
    }
    if (verb === 'update') return { update: this.#updated(content as UpdateAction) }
    if (verb === 'setCommandLink') {
      return {
        commandLink: content === true ? { state: 'linked', file: '/usr/local/bin/metal-agent' } : { state: 'absent' },
      }
    }
    return {}
  }
}
