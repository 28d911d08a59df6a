import { type ReactNode, useEffect, useState } from 'react'
import { Label } from 'react-aria-components/Label'
import { Slider, SliderOutput, SliderThumb, SliderTrack } from 'react-aria-components/Slider'
import type { QueryInput } from '../../contract/queries.ts'
import type { StartSettingView } from '../../contract/settings.ts'
import { Folded, Note, ViewPage } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { classNames, Sentence, Spoken } from '../components/text.tsx'
import {
  changedIn,
  patchOfDraft,
  previewOfDraft,
  sectionOf,
  sectionOfStart,
  type SettingSection,
  settingSections,
  textIn,
  withoutSent,
  withWritten,
} from '../settings-draft.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { budgetWords, settingWords } from '../words/settings.ts'
import { Answer } from './answer.tsx'
import { SettingField } from './setting-field.tsx'
import {
  SettingsCluster,
  SettingsModels,
  SettingsNetwork,
  SettingsPower,
  SettingsRuntimes,
} from './settings-sections.tsx'
import { SettingsGeneral } from './settings-app.tsx'
import styles from './settings.module.css'

const about = 'settings'

/** What a section shows before its settings. */
const places: Readonly<Partial<Record<SettingSection, () => ReactNode>>> = {
  cluster: SettingsCluster,
  network: SettingsNetwork,
  runtimes: SettingsRuntimes,
  models: SettingsModels,
  power: SettingsPower,
  general: SettingsGeneral,
}

/** Every setting of the agent. What a person writes is a draft until it is applied. */
export function Settings() {
  const request = useWindow(({ requests }) => requests[about])
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const ask = useWindow((state) => state.ask)
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const { answer, problem } = useAnswer({ name: 'settings' }, [request?.state, revision])
  const draft = useWindow((state) => state.draft)
  const write = useWindow((state) => state.write)
  const views = answer?.settings ?? []
  const changed = changedIn(draft, views)
  const result = patchOfDraft(changed)
  const problems = result.ok ? [] : result.problems
  const count = Object.keys(changed).length
  const preview = previewOfDraft(changed)
  const hasBytes = views.some((view) => view.name === 'memoryBudgetBytes' && textIn(changed, view) !== '')
  const scaleOf = (text: string, onChange: (text: string) => void) => (
    <MemorySlider
      fraction={Number(text) || 0}
      isOverruled={hasBytes}
      onChange={(fraction) => onChange(String(Number(fraction.toFixed(2))))}
    />
  )
  const apply = async () => {
    if (!result.ok) return
    if (!(await ask(about, { name: 'updateSettings', settings: result.patch }))) return
    write((now) => withoutSent(now, draft))
  }
  return (
    <ViewPage id="settings" title={settingWords.title}>
      <Note>{problem}</Note>
      <p className={styles['note']}>{settingWords.atOnce}</p>
      {settingSections.map((section) => {
        const Place = places[section]
        const started = answer?.start.filter((view) => sectionOfStart(view) === section) ?? []
        return (
          <Section key={section} section={section}>
            {Place !== undefined && <Place />}
            {views
              .filter((view) => sectionOf(view) === section)
              .map((view) => (
                <SettingField
                  key={view.name}
                  view={view}
                  written={changed[view.name]}
                  isPending={request?.state === 'pending'}
                  problem={problems.includes(view.name) ? settingWords.problem(view.name) : undefined}
                  {...(view.name === 'memoryFraction' && { scale: scaleOf })}
                  {...(view.name === preview?.below && { preview: <MemoryPreview settings={preview.settings} /> })}
                  onChange={(text) => write((before) => withWritten(before, view, text))}
                />
              ))}
            {started.length > 0 && (
              <>
                <h4 className={styles['started']}>{settingWords.fromStart}</h4>
                <ul>
                  {started.map((view) => (
                    <StartSetting key={view.name} view={view} startFile={answer?.startFile} />
                  ))}
                </ul>
              </>
            )}
          </Section>
        )
      })}
      <div className={styles['apply']}>
        <Answer about={about} />
        <div className={styles['buttons']}>
          <span className={styles['changes']} role="status">
            {settingWords.changes(count, problems.length)}
          </span>
          <Button disabled={count === 0} onPress={() => write(() => ({}))}>
            {settingWords.revert}
          </Button>
          <Button
            look="prominent"
            disabled={count === 0 || !result.ok || !connected}
            pending={request?.state === 'pending'}
            onPress={() => void apply()}
          >
            {settingWords.apply}
          </Button>
        </div>
      </div>
    </ViewPage>
  )
}

function Section({ section, children }: { readonly section: SettingSection; readonly children: ReactNode }) {
  const name = settingWords.sections[section]
  return (
    <div role="group" className={styles['group']} aria-label={name}>
      <h3 className={styles['name']}>{name}</h3>
      <div className={styles['fields']}>{children}</div>
    </div>
  )
}

interface StartSettingProps {
  readonly view: StartSettingView
  /** The app's start file; undefined if the agent is started with flags. */
  readonly startFile: string | undefined
}

/** A setting that counts only from the start of the agent: what it is, where that comes from, and how another would be stated. */
function StartSetting({ view, startFile }: StartSettingProps) {
  const line = startFile === undefined ? view.flag : view.line
  return (
    <li className={styles['setting']}>
      <p>
        <strong className={styles['title']}>{settingWords.startTitle(view)}</strong>{' '}
        <span className={styles['value']}>
          <Sentence text={settingWords.startValue(view)} />
        </span>
      </p>
      <p className={styles['note']}>
        <Sentence text={settingWords.startHelp(view)} />
      </p>
      <Folded title={settingWords.why}>
        <p className={styles['note']}>
          <Sentence text={settingWords.startWhy(view, startFile)} />
        </p>
        {line !== undefined && <Command text={line} copyLabel={settingWords.copyStart(view)} />}
      </Folded>
    </li>
  )
}

interface MemorySliderProps {
  /** Fraction of all memory that models may take; 0 = automatic. */
  readonly fraction: number
  /** A number of bytes is set, which takes precedence. */
  readonly isOverruled: boolean
  readonly onChange: (fraction: number) => void
}

/** What is less makes no sense, and 0 would mean automatic. */
const least = 0.01

/** How much of this machine's memory models may hold; nothing while its size is not known. */
function MemorySlider({ fraction, isOverruled, onChange }: MemorySliderProps) {
  const total = useSnapshot(({ memory }) => memory?.totalBytes)
  const budget = useSnapshot(({ memory }) => memory?.budgetBytes)
  const gpuLimit = useSnapshot(({ memory }) => memory?.gpuLimitBytes)
  // What automatic would be, which is not the present budget while another one is set.
  const automatic = useAnswer(
    { name: 'evictionPreview', settings: { memoryFraction: null, memoryBudgetBytes: null } },
    [fraction > 0, total, gpuLimit],
  ).answer?.budgetBytes
  if (total === undefined) return null
  const bytes = (isOverruled ? undefined : automatic) ?? budget ?? 0
  const value = Math.max(least, Math.min(1, fraction > 0 ? fraction : bytes / total))
  return (
    <Slider
      className={classNames(styles['slider'])}
      value={value}
      onChange={onChange}
      minValue={least}
      maxValue={1}
      step={0.01}
      formatOptions={{ style: 'percent' }}
      isDisabled={isOverruled}
    >
      <div className={styles['first']}>
        <Label className={classNames(styles['label'])}>{budgetWords.slider}</Label>
        <SliderOutput className={classNames(styles['memorySliderValue'])}>
          {budgetWords.share(value, total)}
        </SliderOutput>
      </div>
      <SliderTrack className={classNames(styles['track'])}>
        <span className={styles['filled']} style={{ width: `${100 * value}%` }} />
        {gpuLimit !== undefined && gpuLimit < total && (
          <span className={styles['gpuLimit']} style={{ insetInlineStart: `${(100 * gpuLimit) / total}%` }} />
        )}
        <SliderThumb className={classNames(styles['thumb'])} />
      </SliderTrack>
      <ul className={styles['legend']}>
        {gpuLimit !== undefined && (
          <li>
            <span className={classNames(styles['key'], styles['gpuLimitKey'])} />
            {budgetWords.gpuLimit(gpuLimit)}
          </li>
        )}
        <li>
          <span className={classNames(styles['key'], styles['ramKey'])} />
          {budgetWords.ram(total)}
        </li>
      </ul>
      {isOverruled && <p className={styles['memorySliderNote']}>{budgetWords.bytesCount}</p>}
    </Slider>
  )
}

interface MemoryPreviewProps {
  /** What is written and not applied yet. */
  readonly settings: Extract<QueryInput, { name: 'evictionPreview' }>['settings']
}

/** What settings about memory would do to the services, by the agent's own decision. */
function MemoryPreview({ settings }: MemoryPreviewProps) {
  const memory = useSnapshot((snapshot) => snapshot.memory)
  const services = useSnapshot((snapshot) => snapshot.services)
  const { answer, problem, isCurrent } = useAnswer({ name: 'evictionPreview', settings }, [memory, services])
  const lines = problem !== undefined ? [problem] : answer && isCurrent ? budgetWords.lines(answer) : undefined
  const said = useCalm(lines?.join(' '))
  return (
    <section className={styles['preview']} aria-label={budgetWords.preview}>
      <Spoken live>{said}</Spoken>
      {lines === undefined ? (
        <p>{budgetWords.looking}</p>
      ) : (
        <ul>
          {lines.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
    </section>
  )
}

/** Long enough that a person who types or slides has come to an end, in milliseconds. */
const calmMs = 1_200

/** What has been so for a while: the rest would be spoken at every key. */
function useCalm(text: string | undefined): string | undefined {
  const [calm, setCalm] = useState<string>()
  useEffect(() => {
    if (text === undefined) return
    const timer = setTimeout(() => setCalm(text), calmMs)
    return () => clearTimeout(timer)
  }, [text])
  return calm
}
