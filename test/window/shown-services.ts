import type { Page } from 'playwright'
import type { HostedAgent } from '../../src/serve/host-agent.ts'
import type { ServingWorld } from '../support/serving-world.ts'

export interface Shown {
  readonly page: Page
  readonly hosted: HostedAgent
  readonly world: ServingWorld
}

/** Services as the window of a test shows them and its agent knows them; `tiny` where no name is given. */
export function shownServices(shown: () => Shown) {
  const detail = (name = 'tiny') => shown().page.getByRole('region', { name, exact: true })
  const row = (state: string, name = 'tiny') =>
    shown().page.getByRole('option', { name, exact: false }).filter({ hasText: state })
  /** The state, not an Event of that name. */
  const showsReady = (name = 'tiny') =>
    detail(name)
      .getByRole('paragraph')
      .filter({ hasText: /^Ready ?for / })
      .waitFor()
  const view = (name = 'tiny') => {
    const service = shown()
      .hosted.door.get()
      .services.find((one) => one.name === name)
    if (!service) throw new Error(`The agent knows no service ${name}.`)
    return service
  }
  return {
    detail,
    row,
    showsReady,
    view,
    step: (name: string) =>
      shown().page.getByRole('list', { name: 'Steps' }).getByRole('listitem').filter({ hasText: name }),
    press: (name: string) => shown().page.getByRole('button', { name, exact: true }).click(),
    /** Ready and open in the window; answers its process. */
    served: async (name: string, script: Parameters<ServingWorld['apply']>[1] = {}): Promise<number> => {
      shown().world.apply(name, script)
      await row('Ready', name).click()
      await showsReady(name)
      const { pid } = view(name)
      if (pid === undefined) throw new Error(`${name} has no process.`)
      return pid
    },
  }
}
