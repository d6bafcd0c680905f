// Searches the listed guides by sections: a heading and the text below it.
import { wordsOfQuery } from './frame.ts';
import { type Guide, type Guides, readGuide } from './guide-files.ts';
import { isUnlisted } from './guide-list.ts';
import { createAnchors, plainText } from './markdown.ts';

/** More are on the page of a person who asks for less. */
export const RESULTS_MAX = 30;

const EXCERPT_CHARACTERS = 180;

type Section = { guide: Guide; anchor: string; heading: string; text: string; lower: string };

export type Found = { guide: Guide; anchor: string; heading: string; excerpt: string };

const sectionsOf = (guide: Guide): Section[] => {
  const anchorOf = createAnchors();
  const sections: { heading: string; lines: string[] }[] = [];
  let isCode = false;
  for (const line of readGuide(guide).split('\n')) {
    if (line.startsWith('```')) isCode = !isCode;
    const heading = isCode ? undefined : /^#+ (.*)$/.exec(line)?.[1];
    if (heading !== undefined) sections.push({ heading, lines: [] });
    else if (!/^(?:```|<!--|\|-)/.test(line)) sections.at(-1)?.lines.push(line);
  }
  return sections.map(({ heading, lines }) => {
    const text = plainText(lines.join(' ').replaceAll(/[\s|]+/g, ' ')).trim();
    const title = plainText(heading);
    return { guide, anchor: anchorOf(heading), heading: title, text, lower: `${title} ${text}`.toLowerCase() };
  });
};

/** The part of a text around a word. */
const excerptOf = (text: string, word: string): string => {
  const at = text.toLowerCase().indexOf(word);
  const from = at < EXCERPT_CHARACTERS / 2 ? 0 : text.indexOf(' ', at - EXCERPT_CHARACTERS / 2) + 1;
  const part = text.slice(from, from + EXCERPT_CHARACTERS);
  return `${from > 0 ? '… ' : ''}${part}${from + EXCERPT_CHARACTERS < text.length ? ' …' : ''}`;
};

/** @returns a function that finds the sections with all words of a query, those with the words in their heading first. */
export const createGuideSearch = ({ byRole }: Guides): ((query: string) => Found[]) => {
  const sections = byRole
    .flatMap(({ guides }) => guides)
    .filter(({ file }) => !isUnlisted(file))
    .flatMap(sectionsOf);
  return (query) => {
    const words = wordsOfQuery(query);
    if (words.length === 0) return [];
    const inHeading = ({ guide, heading }: Section): number => {
      const text = `${guide.title} ${heading}`.toLowerCase();
      return words.filter((word) => text.includes(word)).length;
    };
    return sections
      .filter(({ lower }) => words.every((word) => lower.includes(word)))
      .map((section) => ({ section, score: inHeading(section) }))
      .toSorted((one, other) => other.score - one.score)
      .slice(0, RESULTS_MAX)
      .map(({ section: { guide, anchor, heading, text } }) => ({
        guide,
        anchor,
        heading,
        excerpt: excerptOf(text, words[0] as string),
      }));
  };
};
