import type { AppState } from '../contract/app-bridge.ts'
import type { AgentViewStore } from './agent-view.ts'
import type { KeptToken } from './kept-token.ts'
import { loginItemState } from './login-item.ts'
import { setByPerson } from './preferences.ts'

/** What the app's own window is told of the app; never the token. */
export async function appState(view: AgentViewStore, token: Pick<KeptToken, 'state'>): Promise<AppState> {
  const { preferences, isHere } = view.getState()
  const state = { hubToken: await token.state(), loginItem: loginItemState(), isHere }
  return { ...state, ...(preferences && { preferences: setByPerson(preferences) }) }
}
