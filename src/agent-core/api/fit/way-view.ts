import type { WayToFitView } from '../../../contract/service.ts'
import type { WayToFit } from '../../memory/ways-to-fit.ts'

/** As a person is shown it, with what a button for it does. */
export function wayView(way: WayToFit): WayToFitView {
  const { kind, sentence } = way
  return { kind, sentence, ...effectOf(way) }
}

function effectOf(way: WayToFit): Omit<WayToFitView, 'kind' | 'sentence'> {
  switch (way.kind) {
    case 'change': {
      const { contextTokens, kvType, slots } = way.change
      return {
        change: {
          ...(contextTokens !== undefined && { contextSize: contextTokens }),
          ...(kvType !== undefined && { cacheType: kvType }),
          ...(slots !== undefined && { parallelSlots: slots }),
        },
      }
    }
    case 'evict':
      return { evict: [...way.keys] }
    case 'quit':
      return { quit: [...way.apps] }
    case 'budget': {
      const { of, bytes, command } = way
      return { budget: { of, bytes, ...(command !== undefined && { command }) } }
    }
    case 'both':
      return way.ways.reduce((all, one) => ({ ...all, ...effectOf(one) }), {})
  }
}
