import { type ComponentType, useEffect, useState } from 'react'
import { Banner } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { Spinner } from '../components/glyph.tsx'
import { useConnected } from '../store.ts'
import { laterWords } from '../words/window.ts'
import styles from './later.module.css'

/** A part of the window whose code comes after what is seen first. */
class LaterPart {
  readonly #fetch: () => Promise<ComponentType>
  #component: ComponentType | undefined
  #loading: Promise<ComponentType> | undefined

  constructor(fetch: () => Promise<ComponentType>) {
    this.#fetch = fetch
  }

  /** Undefined until it is here. */
  get component(): ComponentType | undefined {
    return this.#component
  }

  /** Tries again where it failed before. */
  load(): Promise<ComponentType> {
    this.#loading ??= this.#fetch().then(
      (component) => (this.#component = component),
      (error: unknown) => {
        this.#loading = undefined
        throw error
      },
    )
    return this.#loading
  }
}

const parts = {
  models: new LaterPart(async () => (await import('./models.tsx')).Models),
  activity: new LaterPart(async () => (await import('./activity.tsx')).Activity),
  settings: new LaterPart(async () => (await import('./settings.tsx')).Settings),
  help: new LaterPart(async () => (await import('./help.tsx')).Help),
  addModel: new LaterPart(async () => (await import('./add-model.tsx')).AddModel),
} as const

/** Long enough for what is seen first to be drawn. */
const afterFirstMs = 500

/** Fetches what was left out of the first view, so that it is here when a person turns to it, or the agent goes. */
export function useLaterParts(): void {
  useEffect(() => {
    const timer = setTimeout(() => {
      // Tried again, and reported, when a person opens it.
      for (const part of Object.values(parts)) part.load().catch(reportError)
    }, afterFirstMs)
    return () => clearTimeout(timer)
  }, [])
}

/** That part as soon as its code is here, or why it is not. */
export function Later({ part: name }: { readonly part: keyof typeof parts }) {
  const part = parts[name]
  const connected = useConnected()
  const [state, setState] = useState<'loading' | 'failed' | 'here'>('loading')
  useEffect(() => {
    let left = false
    const settle = (next: typeof state) => () => {
      if (!left) setState(next)
    }
    part.load().then(settle('here'), (error: unknown) => {
      reportError(error)
      settle('failed')()
    })
    return () => {
      left = true
    }
  }, [part, connected])
  const { component: Part } = part
  if (Part !== undefined) return <Part />
  return (
    <div role="status" className={styles['later']}>
      {state === 'failed' ? (
        <Banner
          tone="bad"
          actions={
            // Browsers remember that a file failed for as long as the page lives.
            <Button disabled={!connected} onPress={() => window.location.reload()}>
              {laterWords.loadAgain}
            </Button>
          }
        >
          <p>{laterWords.failed}</p>
        </Banner>
      ) : (
        <>
          <Spinner />
          <p>{laterWords.loading}</p>
        </>
      )}
    </div>
  )
}
